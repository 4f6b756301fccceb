"""Export of our functions with symbolic sizes.

Our traces have static sizes. So the function is traced at several sizes, and numbers that differ
between the programs become polynomials of the symbols: see `symbolic_text`.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.export
import numpy as np
from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import symbolic_sizes
from minixla.core.stablehlo_text import Emitter
from minixla.engine.jax_private import constraints_hold, size_at, symbols_of
from minixla.engine.symbolic_program import bind_symbolic
from minixla.interop.dynamic_text import dynamic_text
from minixla.interop.symbolic_text import Sizes, count_of_samples, fitted_size, symbolic_text
from minixla.transforms.arguments import Arguments
from minixla.transforms.evaluation import closed
from minixla.transforms.staging import Staged
from minixla.typing import PyTree

#: Values of symbols that determine the polynomials, and others that are compared.
_FITTED = (11, 13, 17, 19, 23, 29, 8, 12, 16, 24, 36, 40, 7, 5, 32, 48)
_CHECKED = (2, 3, 4, 6, 9, 10, 64, 100, 1024, 4096, 100_004, 1_000_002)
_MOST_CHECKED = 12
_MOST_TRIES = 500


def has_symbolic_sizes(args: PyTree, kwargs: PyTree) -> bool:
    """Return whether an array among arguments has a size of `jax.export.symbolic_shape`."""
    return any(map(symbolic_sizes, jax.tree.leaves((args, kwargs))))


def symbolic_function(fun: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Return a function of JAX tracers with symbolic sizes, which calls the program of `fun`."""
    name = getattr(fun, "__name__", "function")

    def symbolic(*args: PyTree, **kwargs: PyTree) -> PyTree:
        leaves, tree = tree_flatten((args, kwargs))
        avals = list(map(jax.typeof, leaves))
        symbols = _symbols(avals)
        fitted, checked = _samples(name, symbols)
        traces: list[Staged] = []

        def text_at(sizes: Sizes) -> str:
            structs = [_at(aval, sizes) for aval in avals]
            positional, named = tree_unflatten(tree, structs)
            traces.append(closed(Arguments("export", fun, positional, named)))
            graph = traces[-1].graph.pruned()
            if graph.meshes:
                problem = "a program over a mesh cannot have symbolic sizes"
                details = [f"mesh: {mesh}" for mesh in graph.meshes]
                advice = "Export one program for each size, or leave shardings to its caller."
                raise explain(TransformError, name, problem, details, advice)
            return Emitter(locations=True).module(graph)

        marked = symbolic_text(name, text_at, fitted, checked)
        text = dynamic_text(name, marked)
        # The first traces are those at the values that determine the polynomials.
        sizes = _result_sizes([staged.graph for staged in traces[: len(fitted)]], fitted, symbols)
        return tree_unflatten(traces[0].result_tree, bind_symbolic(text, sizes, leaves))

    return symbolic


def _at(aval: Any, sizes: Sizes) -> jax.ShapeDtypeStruct:
    """Return the description of an array at values of the symbols."""
    static = tuple([size_at(size, dict(sizes)) for size in aval.shape])
    return jax.ShapeDtypeStruct(static, aval.dtype, weak_type=aval.weak_type)


def _symbols(avals: Sequence[Any]) -> dict[str, Any]:
    """Return the symbols of sizes by name, as symbolic sizes."""
    expressions = [size for aval in avals for size in aval.shape if symbols_of(size)]
    names = sorted({name for size in expressions for name in symbols_of(size)})
    scope = expressions[0].scope
    sizes = jax.export.symbolic_shape(", ".join(names) + ",", scope=scope)
    return dict(zip(names, sizes, strict=True))


def _samples(name: str, symbols: dict[str, Any]) -> tuple[list[Sizes], list[Sizes]]:
    """Return values of the symbols that satisfy their constraints: to fit and to check."""
    some = next(iter(symbols.values()))

    def valid(numbers: Sequence[int], most: int) -> list[Sizes]:
        samples: list[Sizes] = []
        generator, number = np.random.default_rng(0), len(symbols)
        if len(numbers) ** number < 10**5:
            rows = generator.permutation(list(product(numbers, repeat=number)))
        else:
            rows = generator.choice(numbers, (_MOST_TRIES, number))
        for row in rows[:_MOST_TRIES].tolist():
            sizes = dict(zip(symbols, row, strict=True))
            if sizes not in samples and constraints_hold(some, sizes):
                samples.append(sizes)
            if len(samples) >= most:
                break
        return samples

    wanted = count_of_samples(list(symbols)) + 1
    fitted = valid(_FITTED, wanted)
    others = [sizes for sizes in valid(range(2, 200), _MOST_TRIES) if sizes not in fitted]
    checked = valid(_CHECKED, _MOST_CHECKED) or others[:_MOST_CHECKED]
    if len(fitted) < wanted or not checked:
        problem = f"too few values of {', '.join(symbols)} satisfy the constraints"
        details = [f"{len(fitted)} of {wanted} values, among {_FITTED}"]
        advice = "Weaken the constraints, or export one program for each size."
        raise explain(TransformError, name, problem, details, advice)
    return fitted, checked


def _result_sizes(
    graphs: Sequence[Graph], samples: Sequence[Sizes], symbols: dict[str, Any]
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the sizes of the results, as expressions of the symbols, and their dtypes."""
    results = []
    for shapes in zip(*[graph.output_shapes for graph in graphs], strict=True):
        arrays: list[Any] = list(shapes)
        columns = zip(*[shape.dimensions for shape in arrays], strict=True)
        sizes = [fitted_size(samples, column, symbols) for column in columns]
        results.append((tuple(sizes), arrays[0].dtype))
    return results
