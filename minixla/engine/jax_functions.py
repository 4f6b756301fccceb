"""What goes wrong while JAX traces a function that becomes one of ours."""

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.tree_util import tree_leaves

from minixla.core.errors import ConcretizationError, ImportError_, MinixlaError, explain
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


def refuse_lost(jaxpr: Any, name: str, keeps_layouts: bool) -> None:
    """Raises ImportError_ where a function of JAX's does what no graph says."""

    def lost(problem: str, shown: str, advice: str) -> ImportError_:
        return explain(ImportError_, "from_jax", f"{name} {problem}", [shown], advice)

    for step in _steps(jaxpr):
        if step.primitive.name == "shard_map":
            raise lost(
                "maps a function over devices with jax.shard_map",
                f"mesh: {step.params['mesh']}",
                "A program of ours is one for all devices: call jax.shard_map from JAX's code "
                "(jax.jit, jax.grad), where the mapped function may call ours; or use mx.pmap.",
            )
    for step in _steps(jaxpr) if keeps_layouts else ():
        for key in ("sharding", "in_shardings", "out_shardings", "devices"):
            given = step.params.get(key)
            for each in given if isinstance(given, (tuple, list)) else (given,):
                # What is left open is no Sharding.
                if isinstance(each, jax.sharding.Sharding):
                    raise lost(
                        "fixes the layout of a value over devices, which a program of ours would "
                        "lose",
                        f"{step.primitive.name}, {key}: {each}",
                        'mx.from_jax(f, shardings="drop") gives it up: the results are the same. '
                        "Or leave it out of the function and say it outside: "
                        "mx.jit(lambda x: x, out_shardings=sharding)(x) keeps the layout of x "
                        "inside a program of ours; or call the function from jax.jit, not through "
                        "mx.from_jax.",
                    )
    if jaxpr.effects:
        raise lost(
            "has side effects",
            f"effects: {', '.join(map(str, jaxpr.effects))}",
            "Prints and ordered callbacks run in JAX's own programs only: call the function "
            "outside, or leave them out.",
        )


def _steps(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of all within it."""
    for step in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield step
        for inner in tree_leaves([*step.params.values()]):
            if isinstance(inner, (ClosedJaxpr, Jaxpr)):
                yield from _steps(inner)
