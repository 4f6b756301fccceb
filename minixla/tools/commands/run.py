"""run, grad and vmap: a program, its derivative, or it over a batch, evaluated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

from minixla.tools.commands.options import (
    BadInput,
    Commands,
    add_argument_options,
    add_command,
    argument_arrays,
    check_is_array,
    named_outputs,
    print_json,
    read_program,
    sixty_four_bits,
)
from minixla.tools.evaluators import EVALUATORS, NotEvaluated, backend
from minixla.tools.progress import shown_progress

if TYPE_CHECKING:
    import numpy as np

    from minixla.core.graph import Graph
    from minixla.core.shapes import AnyShape, Shape


def add(commands: Commands) -> None:
    """Adds the commands."""
    _add(commands, "run", "the results of a program", _run)
    grad = _add(commands, "grad", "the gradient of a program's results, summed up", _grad)
    grad.add_argument(
        "--argnums",
        type=_numbers,
        metavar="0,1",
        help="the arguments; default: all floats and complex numbers",
    )
    vmap = _add(commands, "vmap", "the results of a program for every member of a batch", _vmap)
    vmap.add_argument(
        "--in-axes",
        type=_axes,
        metavar="0,none",
        help="the batch's axis in each argument, or none; default: 0 in all",
    )
    vmap.add_argument(
        "--size", type=int, metavar="NUMBER", default=2, help="of the batch (default 2)"
    )


def _add(commands: Commands, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    command = add_command(commands, name, f"Computes {text}", run)
    add_argument_options(command)
    command.add_argument(
        "--backend",
        choices=list(map(backend, EVALUATORS)),
        default="xla",
        help="what evaluates (default xla)",
    )
    command.add_argument("--output", metavar="FILE.npz", help="writes the results to a file")
    command.add_argument(
        "--emit", choices=("hlo", "stablehlo"), help="prints the program instead of evaluating it"
    )
    return command


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 0,2") from None


def _axes(text: str) -> list[int | None]:
    words = [each.strip().lower() for each in text.split(",")]
    try:
        return [None if each == "none" else int(each) for each in words]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list such as 0,none,-1") from None


def _run(options: argparse.Namespace) -> int:
    with sixty_four_bits():
        graph = read_program(options).graph
        return _evaluate(options, graph, named_outputs(graph, "result"))


def _grad(options: argparse.Namespace) -> int:
    from minixla.transforms.evaluation import make_graph

    with sixty_four_bits():
        program = read_program(options)
        shapes = program.graph.input_shapes
        numbers = _differentiated(options.argnums, shapes)
        names = [f"gradient{number}" for number in numbers]
        templates = [_template(check_is_array(*each)) for each in enumerate(shapes)]
        graph = make_graph(lambda *given: _gradients(program, numbers, given))(*templates)
        return _evaluate(options, graph, names)


def _differentiated(argnums: list[int] | None, shapes: Sequence[Any]) -> list[int]:
    """The positions of the arguments that are differentiated."""
    from minixla.tools.graph_parts import is_inexact

    floats = [index for index, shape in enumerate(shapes) if is_inexact(shape)]
    chosen = floats if argnums is None else argnums
    for number in chosen:
        if number not in floats:
            raise BadInput(
                f"--argnums: argument {number} has no derivative; the program takes "
                f"({', '.join(map(str, shapes))})"
            )
    if not chosen:
        raise BadInput("the program takes no floats or complex numbers")
    return chosen


def _gradients(program: Any, numbers: Sequence[int], given: Sequence[Any]) -> list[Any]:
    """The cotangents of arguments for ones as those of all floats among the results."""
    import numpy as np

    from minixla.core.tracing import shape_of
    from minixla.tools.graph_parts import is_inexact
    from minixla.transforms.gradients import vjp

    def of_some(*some: Any) -> list[Any]:
        full = list(given)
        for number, value in zip(numbers, some, strict=True):
            full[number] = value
        results = program(*full)
        listed = results if isinstance(results, (tuple, list)) else [results]
        return [each for each in listed if is_inexact(shape_of(each))]

    results, pullback = vjp(of_some, *[given[number] for number in numbers])
    if not results:
        raise BadInput("no result of the program has a derivative")
    shapes: list[Any] = [shape_of(each) for each in results]
    return list(pullback([np.ones(shape.dimensions, shape.dtype) for shape in shapes]))


def _vmap(options: argparse.Namespace) -> int:
    from minixla.transforms.evaluation import make_graph
    from minixla.transforms.vmap import vmap

    with sixty_four_bits():
        program = read_program(options)
        shapes = list(starmap(check_is_array, enumerate(program.graph.input_shapes)))
        if options.size < 1:
            raise BadInput(f"--size: a batch has one member or more, not {options.size}")
        axes = options.in_axes or [0]
        axes = axes * len(shapes) if len(axes) == 1 else axes
        if len(axes) != len(shapes):
            raise BadInput(f"--in-axes has {len(axes)} axes for {len(shapes)} arguments")
        batched = [_batched(*pair, options.size) for pair in zip(shapes, axes, strict=True)]
        mapped = vmap(program, in_axes=tuple(axes), axis_size=options.size)
        graph = make_graph(mapped)(*map(_template, batched))
        return _evaluate(options, graph, named_outputs(graph, "result"))


def _batched(shape: Shape, axis: int | None, size: int) -> Shape:
    if axis is None:
        return shape
    rank = shape.rank + 1
    if not -rank <= axis < rank:
        raise BadInput(f"--in-axes: axis {axis} is out of range for a batch of {shape}")
    sizes = list(shape.dimensions)
    sizes.insert(axis % rank, size)
    return shape.with_dimensions(tuple(sizes))


def _template(shape: Shape) -> Any:
    """What a program is traced with in place of an argument."""
    import jax

    return jax.ShapeDtypeStruct(shape.dimensions, shape.dtype)


def _evaluate(options: argparse.Namespace, graph: Graph, names: Sequence[str]) -> int:
    """Evaluates a program and shows its results, or prints the program."""
    from minixla.tools.opinions import evaluate

    if options.emit is not None:
        print(graph.stablehlo() if options.emit == "stablehlo" else str(graph), end="")
        return 0
    operands, origins = argument_arrays(options, graph.input_shapes)
    evaluator = next(each for each in EVALUATORS.values() if backend(each.name) == options.backend)
    try:
        with shown_progress(f"minixla {options.command}") as say:
            say(options.backend)
            results = evaluate(evaluator, graph, operands)
    except NotEvaluated as error:
        raise BadInput(f"{options.backend} cannot evaluate it: {error}") from None
    if options.output is not None:
        _write(options.output, names, results)
    _show(options, graph.input_shapes, origins, names, results)
    return 0


def _write(path: str, names: Sequence[str], results: Sequence[np.ndarray]) -> None:
    import numpy as np

    with open(path, "wb") as file:
        arrays: dict[str, Any] = dict(zip(names, results, strict=True))
        np.savez(file, **arrays)


def _show(
    options: argparse.Namespace,
    shapes: Sequence[AnyShape],
    origins: Sequence[str],
    names: Sequence[str],
    results: Sequence[np.ndarray],
) -> None:
    from minixla.core.shapes import Shape

    types = [str(Shape(each.dtype, each.shape)) for each in results]
    if options.json:
        arguments = [
            {"shape": str(shape), "origin": origin}
            for shape, origin in zip(shapes, origins, strict=True)
        ]
        rows = zip(names, types, results, strict=True)
        found = [{"name": n, "shape": t, "values": _listed(each)} for n, t, each in rows]
        print_json({"backend": options.backend, "arguments": arguments, "results": found})
        return
    for index, (shape, origin) in enumerate(zip(shapes, origins, strict=True)):
        print(f"argument {index} {shape}: {origin}", file=sys.stderr)
    for name, kind, each in zip(names, types, results, strict=True):
        print(f"{name} {kind}:\n{each}")


def _listed(array: np.ndarray) -> Any:
    """Nested lists of Python's numbers."""
    from minixla.core.element_types import element_type

    kind = element_type(array.dtype)
    if kind.is_float:
        return array.astype("f8").tolist()
    if kind.is_integer:
        return array.astype("i8" if kind.kind == "signed" else "u8").tolist()
    return array.tolist()
