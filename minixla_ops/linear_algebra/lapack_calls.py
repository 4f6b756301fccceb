"""Calls of LAPACK and BLAS in programs for the CPU, of cuSOLVER for GPUs: XLA has slow loops."""

from collections.abc import Mapping, Sequence
from itertools import chain, count, islice
from typing import Any

from minixla.core import ElementType, Shape
from minixla.core.stablehlo_text import layouts_text, quoted

#: What the names of routines begin with, by element type.
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def lapack_layout(rank: int, batch: int) -> tuple[int, ...]:
    """The layout of a row-major stack of column-major arrays, fastest dimension first."""
    return (*range(batch, batch + rank), *reversed(range(batch)))


def sharding_hints(batch: int, shapes: Sequence[Shape], results: Sequence[Shape]) -> str:
    """Says that a stack may be split over devices, matrices may not: by Shardy's rule, and GSPMD's.

    The `batch` dimensions in front are factors that all arrays share, each other one is one alone.
    """
    # Shardy's names of factors.
    names = chain("ijklmnopqrstuvwxyz", (f"z_{number}" for number in count(1)))
    shared = list(islice(names, batch))
    sizes = dict(zip(shared, shapes[0].dimensions, strict=False))

    def listed(arrays: Sequence[Shape]) -> str:
        texts = []
        for shape in arrays:
            own = [next(names) for _ in shape.dimensions[batch:]]
            sizes.update(zip(own, shape.dimensions[batch:], strict=True))
            texts.append(f"[{', '.join([*shared, *own])}]")
        return ", ".join(texts)

    rule = f"({listed(shapes)})->({listed(results)})"
    factors = ", ".join([f"{name}={size}" for name, size in sizes.items()])
    return (
        f' {{mhlo.frontend_attributes = {{num_batch_dims = "{batch}"}}, '
        f"sdy.sharding_rule = #sdy.op_sharding_rule<{rule} {{{factors}}}, custom>}}"
    )


def lapack_target(routine: str, kind: ElementType, options: Mapping[str, str]) -> tuple[str, str]:
    """The target and attributes of a call; `routine` is without the letter of the element type."""
    given = [f"{name} = {ord(letter)} : ui8" for name, letter in options.items()]
    return f"lapack_{LETTERS[kind.name]}{routine}_ffi", ", ".join(given)


def matrix_call(
    emit: Any, target: str, config: str, operands: Sequence[str], shapes: Any, results: Any
) -> Sequence[str]:
    """Writes a call of code for stacks of column-major matrices, with its attributes."""
    emit.foreign_call(target)
    batch = shapes[0].rank - 2
    operand_layouts, result_layouts = (
        layouts_text([lapack_layout(shape.rank - batch, batch) for shape in each])
        for each in (shapes, results)
    )
    return emit.operation(
        "stablehlo.custom_call",
        operands,
        shapes,
        results,
        hints=sharding_hints(batch, shapes, results),
        call_target_name=quoted(target),
        has_side_effect=False,
        api_version="4 : i32",
        backend_config=f"{{{config}}}",
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
    )
