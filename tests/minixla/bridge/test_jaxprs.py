"""Source lines of instructions that jaxprs become."""

from __future__ import annotations

import functools
import inspect
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx

X = np.linspace(0.1, 1.3, 5, dtype=np.float32)

LIBRARY = """
import jax, jax.numpy as jnp

def plain(x):
    return jnp.tanh(x)

@jax.jit
def jitted(x):
    return jnp.tanh(x)

@jax.checkpoint
def checkpointed(x):
    return jnp.tanh(x)

def scanned(x):
    return jax.lax.scan(lambda c, y: (c, jnp.tanh(y)), 0.0, x[None])[1]
"""


def lines(function, operation="Tanh"):
    """The lines of instructions in a graph and the programs that it runs: own, and callers'."""
    pending, found = [mx.make_graph(function)(X)], []
    for graph in pending:
        for step in graph.instructions:
            pending.extend(step.op.computations)
            if step.op.name == operation:
                caller = step.source.caller
                found.append((step.source.line, None if caller is None else caller.line))
    return found


def here():
    """The line that calls."""
    return inspect.stack()[1].lineno


@pytest.fixture
def library(tmp_path):
    file = tmp_path / "site-packages" / "library.py"
    file.parent.mkdir()
    file.write_text(LIBRARY)
    module = types.ModuleType("library")
    exec(compile(LIBRARY, str(file), "exec"), vars(module))
    return module


@pytest.mark.parametrize(
    ("name", "own"), [("plain", 5), ("jitted", 9), ("checkpointed", 13), ("scanned", 16)]
)
def test_lines_of_a_library_and_of_its_caller(library, name, own):
    function = getattr(library, name)
    for wrap in (lambda f: f, mx.jit, mx.vmap):
        at, inner = here() + 1, wrap
        assert lines(inner(lambda x: function(x))) == [(own, at)]


def test_a_jitted_function_of_a_library_is_called_from_each_line(library):
    function, at = library.jitted, here()
    assert lines(lambda x: function(x)) == [(9, at + 1)]
    assert lines(lambda x: function(x)) == [(9, at + 2)]


def test_a_jitted_function_of_the_user_names_its_own_lines():
    @jax.jit
    def doubled(x):
        at.append(here())
        return jnp.tanh(x) * 2

    at: list[int] = []
    for _ in range(2):
        assert lines(lambda x: doubled(x)) == [(at[0] + 1, None)]


def test_functions_of_jax_name_the_line_that_calls_them():
    where = functools.partial(jnp.where, X > 0.5)
    found = [lines(lambda x: where(x, 0), "Select"), lines(lambda x: where(x, 0), "Select")]
    assert found == [[(here() - 1, None)]] * 2
