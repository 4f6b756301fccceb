"""Imported programs as functions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.export
import numpy as np
from jax.tree_util import tree_unflatten

from minixla.core.annotations import Paths
from minixla.core.errors import ImportError_, TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape, TupleShape, TupleValue
from minixla.core.tracebacks import api_boundary
from minixla.core.tracer import Tracer
from minixla.core.tracing import shape_of
from minixla.engine.float0 import places, structure_places
from minixla.engine.random_keys import as_key, flatten, without_keys
from minixla.interop.refusals import SUBJECT
from minixla.sharding.explicit import explicit
from minixla_ops.helpers.tuple_operations import tuple_leaves, without_tuples
from minixla_ops.programs.call import call


class ImportedFunction:
    """A function of an imported program.

    Called with a value for each input, it returns the result, or a tuple of the results. Inputs
    and results of tuple types are Python tuples. It is an ordinary function: `mx.grad`, `mx.vmap`,
    `mx.jit`, `mx.reference` work on it.

    Attributes:
        graph: its program.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.__name__ = graph.name

    @api_boundary
    def __call__(self, *operands: Any) -> Any:
        """Return the result, or the tuple of results."""
        results = self._flat(operands)
        return results[0] if len(results) == 1 else results

    def _flat(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        shapes = self.graph.input_shapes
        if len(operands) != len(shapes):
            problem = f"{len(operands)} arguments for {len(shapes)} inputs"
            details = [f"inputs ({', '.join(map(str, shapes))})"]
            advice = "Pass a value for each input."
            raise explain(TransformError, self.graph.name, problem, details, advice)
        leaves: list[Any] = []
        for number, (operand, shape) in enumerate(zip(operands, shapes, strict=True)):
            leaves += self._leaves(operand, shape, f"argument {number}")
        results = iter(call(without_tuples(explicit(self.graph)), *leaves))
        return tuple([_structured(shape, results) for shape in self.graph.output_shapes])

    def _leaves(self, operand: Any, shape: AnyShape, place: str) -> list[Any]:
        """Return the arrays of an operand of a shape; tuples are flattened in order."""
        if not isinstance(shape, TupleShape):
            return [_fitting(operand, shape)]
        if isinstance(operand, (Tracer, TupleValue)) and shape_of(operand) is shape:
            return tuple_leaves(operand)
        if not isinstance(operand, (tuple, list)) or len(operand) != len(shape.elements):
            details = [f"{place} {_described(operand)}", f"input {shape}"]
            problem, advice = f"{place} is not a tuple of the input's shape", "Pass a Python tuple."
            raise explain(TransformError, self.graph.name, problem, details, advice)
        return [
            leaf
            for index, (member, inner) in enumerate(zip(operand, shape.elements, strict=True))
            for leaf in self._leaves(member, inner, f"{place}[{index}]")
        ]

    def __repr__(self) -> str:
        return f"<imported {self.graph!r}>"

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()


def _described(operand: Any) -> str:
    length = f" of length {len(operand)}" if isinstance(operand, (tuple, list)) else ""
    return f"is a {type(operand).__name__}{length}"


def _structured(shape: AnyShape, leaves: Iterator[Any]) -> Any:
    """Build a value of a shape from the next leaves; tuples are Python tuples."""
    if not isinstance(shape, TupleShape):
        return next(leaves)
    return tuple([_structured(element, leaves) for element in shape.elements])


def _fitting(operand: Any, shape: Any) -> Any:
    """Convert a Python number to the type that the program takes; keep anything else."""
    is_number = isinstance(operand, (bool, int, float, complex))
    if not is_number or not isinstance(shape, Shape) or shape.rank or shape_of(operand) is shape:
        return operand
    return np.asarray(operand).astype(shape.dtype)


class ImportedProgram(ImportedFunction):
    """An imported program: its main function, and all functions by name.

    Attributes:
        graph: the program of the main function.
        functions: every function of the program.
    """

    def __init__(self, graph: Graph, functions: Mapping[str, Graph]) -> None:
        super().__init__(graph)
        self.functions = {name: ImportedFunction(function) for name, function in functions.items()}


class ExportedProgram(ImportedProgram):
    """A program of jax.export, which takes and returns pytrees like the exported function."""

    def __init__(self, program: ImportedProgram, exported: jax.export.Exported) -> None:
        self.__dict__.update(program.__dict__)
        self._exported = exported
        kept, graph = exported.module_kept_var_idx, program.graph
        fits = len(kept) == len(graph.inputs) and len(graph.outputs) == exported.out_tree.num_leaves
        if not fits or any(number >= exported.in_tree.num_leaves for number in kept):
            problem = "the program does not match jax.export's arguments and results"
            details = [
                f"program {graph!r}",
                f"arguments {exported.in_tree}",
                f"kept arguments {kept}",
            ]
            advice = "It is damaged, or has ordered side effects: remove prints and callbacks."
            raise explain(ImportError_, SUBJECT, problem, details, advice)
        results = structure_places("result", exported.out_tree)
        self.graph = graph.with_paths(Paths(argument_paths(exported), results))

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results in the structure of the exported function."""
        exported = self._exported
        kept = kept_leaves(exported, self.graph.name, args, kwargs)
        pairs = zip(self._flat(kept), exported.out_avals, strict=True)
        results = [as_key(result, described.dtype) for result, described in pairs]
        return tree_unflatten(exported.out_tree, results)


def kept_leaves(exported: jax.export.Exported, name: str, args: Any, kwargs: Any) -> list[Any]:
    """Return the leaves of the arguments of an exported function that its program takes."""
    leaves, tree = flatten((args, kwargs))
    if without_keys(tree) != exported.in_tree:
        problem = "the structure of the arguments is not that of the exported function"
        details = [f"arguments {tree}", f"exported {exported.in_tree}"]
        advice = "Pass the arguments of the exported function."
        raise explain(TransformError, name, problem, details, advice)
    return [leaves[number] for number in exported.module_kept_var_idx]


def argument_paths(exported: jax.export.Exported) -> list[str]:
    """Return the paths of the leaves that the program of an exported function takes."""
    args, kwargs = tree_unflatten(exported.in_tree, range(exported.in_tree.num_leaves))
    paths = places("args", args)
    for name, value in sorted(kwargs.items()):
        paths += places(f"kwargs[{name!r}]", value)
    return [paths[index] for index in exported.module_kept_var_idx]
