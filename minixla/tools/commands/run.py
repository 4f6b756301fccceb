"""run, grad, vmap and check: a program, its derivative, or it over a batch, evaluated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import jax
import numpy as np

import minixla as mx
from minixla.core.element_types import element_type
from minixla.core.graph import Graph
from minixla.core.linear import spread
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of
from minixla.interop import ImportedProgram
from minixla.tools.command_line import BadInput
from minixla.tools.commands.programs import argument_arrays, array_shapes, on_program, print_json
from minixla.tools.evaluators import EVALUATORS, NotEvaluated, backend
from minixla.tools.graph_parts import inexact_part, is_inexact
from minixla.tools.localization import evaluate
from minixla.tools.progress import shown_progress


@on_program
def run(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Evaluates a program."""
    return _evaluate(options, program.graph)


@on_program
def grad(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Evaluates the gradient of the sum of a program's floats and complex numbers."""
    shapes = array_shapes(program.graph.input_shapes)
    floats = [number for number, shape in enumerate(shapes) if is_inexact(shape)]
    numbers = floats if options.argnums is None else options.argnums
    for number in numbers:
        if number not in floats:
            takes = f"the program takes ({', '.join(map(str, shapes))})"
            raise BadInput(f"--argnums: argument {number} has no derivative; {takes}")
    if not numbers:
        raise BadInput("the program takes no floats or complex numbers")
    moving = [index in numbers for index in range(len(shapes))]

    def gradients(*given: Any) -> list[Any]:
        part = inexact_part(lambda *all_: jax.tree.leaves(program(*all_)), moving, given)
        results, pullback = mx.vjp(part, *compress(given, moving))
        if not results:
            raise BadInput("no result of the program has a derivative")
        found: list[Any] = [shape_of(each) for each in results]
        ones = [np.ones(shape.dimensions, shape.dtype) for shape in found]
        cotangents = spread(moving, pullback(ones))
        return [cotangents[number] for number in numbers]

    names = [f"gradient{number}" for number in numbers]
    return _evaluate(options, _traced(gradients, shapes), names)


@on_program
def vmap(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Evaluates a program for every member of a batch."""
    shapes = array_shapes(program.graph.input_shapes)
    if options.size < 1:
        raise BadInput(f"--size: a batch has one member or more, not {options.size}")
    axes = options.in_axes or [0]
    axes = axes * len(shapes) if len(axes) == 1 else axes
    if len(axes) != len(shapes):
        raise BadInput(f"--in-axes has {len(axes)} axes for {len(shapes)} arguments")
    batched = [_batched(*pair, options.size) for pair in zip(shapes, axes, strict=True)]
    mapped = mx.vmap(program, in_axes=tuple(axes), axis_size=options.size)
    return _evaluate(options, _traced(mapped, batched))


def _batched(shape: Shape, axis: int | None, size: int) -> Shape:
    if axis is None:
        return shape
    rank = shape.rank + 1
    if not -rank <= axis < rank:
        raise BadInput(f"--in-axes: axis {axis} is out of range for a batch of {shape}")
    return shape.with_dimension(axis % rank, size)


def _traced(function: Callable[..., Any], shapes: Sequence[Shape]) -> Graph:
    given = [jax.ShapeDtypeStruct(shape.dimensions, shape.dtype) for shape in shapes]
    return mx.make_graph(function)(*given)


def _evaluate(options: argparse.Namespace, graph: Graph, names: Sequence[str] | None = None) -> int:
    """Evaluates a program and shows its results, or prints the program."""
    if options.emit is not None:
        print(graph.stablehlo() if options.emit == "stablehlo" else str(graph), end="")
        return 0
    if names is None:
        count = len(graph.outputs)
        names = ["result"] if count == 1 else [f"result{index}" for index in range(count)]
    operands, origins = argument_arrays(options, graph.input_shapes)
    evaluator = next(each for each in EVALUATORS.values() if backend(each.name) == options.backend)
    try:
        with shown_progress(f"minixla {options.command}") as say:
            say(options.backend)
            results = evaluate(evaluator, graph, operands)
    except NotEvaluated as error:
        raise BadInput(f"{options.backend} cannot evaluate it: {error}") from None
    if options.output is not None:
        with open(options.output, "wb") as file:
            arrays: dict[str, Any] = dict(zip(names, results, strict=True))
            np.savez(file, **arrays)
    arguments = list(zip(map(str, graph.input_shapes), origins, strict=True))
    types = [str(Shape(each.dtype, each.shape)) for each in results]
    rows = zip(names, types, results, strict=True)
    if options.json:
        given = [{"shape": shape, "origin": origin} for shape, origin in arguments]
        found = [{"name": n, "shape": t, "values": _listed(each)} for n, t, each in rows]
        print_json({"backend": options.backend, "arguments": given, "results": found})
        return 0
    for index, (shape, origin) in enumerate(arguments):
        print(f"argument {index} {shape}: {origin}", file=sys.stderr)
    for name, kind, each in rows:
        print(f"{name} {kind}:\n{each}")
    return 0


def _listed(array: np.ndarray) -> Any:
    """Nested lists of Python's numbers."""
    kind = element_type(array.dtype)
    if kind.is_float:
        return array.astype("f8").tolist()
    if kind.is_integer:
        return array.astype("i8" if kind.kind == "signed" else "u8").tolist()
    return array.tolist()


@on_program
def check(options: argparse.Namespace, program: ImportedProgram) -> int:
    """Prints what `minixla.tools.cross_check` finds."""
    operands, origins = argument_arrays(options, program.graph.input_shapes)
    with shown_progress("minixla check") as say:
        gradients = not options.no_gradients
        report = mx.cross_check(program, *operands, gradients=gradients, progress=say)
    if options.json:
        print_json(report.as_dict())
    else:
        for index, origin in enumerate(origins):
            print(f"argument {index}: {origin}", file=sys.stderr)
        print(report)
    return 0 if report.ok else 1
