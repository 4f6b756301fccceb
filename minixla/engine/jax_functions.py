"""What goes wrong while JAX traces a function that becomes one of ours."""

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.tree_util import tree_leaves

from minixla.core.errors import (
    ConcretizationError,
    DerivativeError,
    ImportError_,
    MinixlaError,
    explain,
)
from minixla.core.shapes import shape_of_data
from minixla.core.source import find_source, is_user_file

#: What JAX's errors call the arguments of the function that it traces, by its only parameter.
_ARGUMENT = re.compile(r"\barrays\[(\d+)\]")


@contextmanager
def explaining(name: str, given: Sequence[Any], labels: Sequence[str]) -> Iterator[None]:
    """Errors of JAX's name the arguments (by `labels` if the user gave them) and what to do."""
    try:
        yield
    except MinixlaError:
        raise
    except Exception as error:
        # "Differentiation rule for ...", "Transpose rule (for reverse-mode differentiation) ...".
        if isinstance(error, NotImplementedError) and "ifferentiation" in str(error):
            problem, said = f"JAX has no rule for {name}", str(error).splitlines()[0]
            advice = "Give it one by mx.custom_jvp or mx.custom_vjp, or mx.stop_gradient."
            raise explain(DerivativeError, "from_jax", problem, [said], advice) from None
        labels = labels or [f"operand {number}" for number in range(len(given))]
        traced = [f"{x} {shape_of_data(a)}" for x, a in zip(labels, given, strict=True)]
        kinds = (jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError)
        if not isinstance(error, kinds) or "concrete" not in str(error).lower():
            where = f", called at {source}" if (source := find_source(1)) else ""
            error.add_note(
                f"mx.from_jax: raised while JAX traced {name}{where}.\n  JAX traced: "
                f"{', '.join(traced) or 'nothing'}; all else reached {name} as it was given."
            )
            raise
        found = sorted(map(int, set(_ARGUMENT.findall(str(error)))))
        wanted = [labels[number] for number in found if number < len(labels)]
        # The innermost of the user's that raised, if it is not the one that called us.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_file(f.filename)]
        raise explain(
            ConcretizationError,
            "from_jax",
            f"{name} asks for the value of {' and '.join(wanted) or 'what it computes'}, "
            "of which JAX knows only the shape",
            [f"JAX traced {each}" for each in traced]
            + [f"JAX says: {str(error).splitlines()[0]}"]
            + [f"asked for at {frame.filename}:{frame.lineno}" for frame in frames[-1:]],
            "mx.from_jax lets JAX trace arrays, NumPy's numbers and traced values, and nothing "
            f"else: give {wanted[0] if wanted else 'it'} as a Python number (or a tuple of such). "
            "Where it comes into mx.jit as an argument, name it in static_argnums or "
            "static_argnames there; if the value is only known when the program runs, choose with "
            "jnp.where or jax.lax.cond.",
        ) from None


def refuse_lost(jaxpr: Any, name: str, shardings: str) -> list[Any]:
    """Raises ImportError_ where a function of JAX's does what no graph says.

    Args:
        jaxpr: the function.
        name: its name.
        shardings: `keep`, `refuse` or `drop`, as `from_jax` takes it.

    Returns:
        JAX's meshes of devices that it names.
    """

    def lost(problem: str, shown: str, advice: str) -> ImportError_:
        return explain(ImportError_, "from_jax", f"{name} {problem}", [shown], advice)

    meshes = []
    for step in _steps(jaxpr):
        if step.primitive.name == "shard_map":
            meshes.append(step.params["mesh"])
            if shardings != "keep":
                raise lost(
                    "maps a function over devices with jax.shard_map",
                    f"mesh: {step.params['mesh']}",
                    'Give shardings="keep", and it becomes an instruction of ours.',
                )
        for key in ("sharding", "in_shardings", "out_shardings", "devices"):
            given = step.params.get(key)
            for each in given if isinstance(given, (tuple, list)) else (given,):
                # What is left open is no Sharding.
                if not isinstance(each, jax.sharding.Sharding) or shardings == "drop":
                    continue
                is_named = isinstance(each, jax.sharding.NamedSharding)
                # Of device_put JAX's text says nothing.
                if is_named and shardings == "keep" and key != "devices":
                    meshes.append(each.mesh)
                    continue
                raise lost(
                    "fixes the layout of a value over devices, which a program of ours would lose",
                    f"{step.primitive.name}, {key}: {each}",
                    "jax.lax.with_sharding_constraint by a jax.sharding.NamedSharding is kept; "
                    'mx.from_jax(f, shardings="drop") gives layouts up: the results are the same. '
                    "Or call the function from jax.jit, not through mx.from_jax.",
                )
    if jaxpr.effects:
        raise lost(
            "has side effects",
            f"effects: {', '.join(map(str, jaxpr.effects))}",
            "Prints and ordered callbacks run in JAX's own programs only: call the function "
            "outside, or leave them out.",
        )
    return meshes


def _steps(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of all within it."""
    for step in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield step
        for inner in tree_leaves([*step.params.values()]):
            if isinstance(inner, (ClosedJaxpr, Jaxpr)):
                yield from _steps(inner)
