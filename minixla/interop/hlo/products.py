"""Products, convolutions, gathers and scatters of HLO."""

from __future__ import annotations

import re
from typing import Any

from minixla.core.operation import REGISTRY
from minixla.interop.hlo import notation
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.step import Nest, Step
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.dot_dimensions import DotDimensionNumbers
from minixla_ops.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from minixla_ops.ragged_dot import RaggedDotDimensionNumbers

__all__ = ["PRODUCTS", "window_fields"]

_PRECISIONS = ("default", "high", "highest")
_PRECISION = re.compile(r"\{(\w+),(\w+)(?:,\w+)*\}", re.ASCII)


def _precision(text: str) -> tuple[str, str] | None:
    match = _PRECISION.fullmatch(text.replace(" ", ""))
    if match is None or not {match[1], match[2]} <= set(_PRECISIONS):
        return None
    return match[1].upper(), match[2].upper()


def _summing(step: Step) -> dict[str, Any]:
    """The precision of each operand, and the element type of the result where it is another."""
    own, kind = step.operand(0, len(step.operands)), step.array.element_type
    given: dict[str, Any] = {
        "preferred_element_type": kind if own.element_type is not kind else None
    }
    if step.has("operand_precision"):
        form = "{default,highest}"
        given["precision_config"] = step.parsed("operand_precision", _precision, form)
    return given


_DOT = """lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims
operand_precision algorithm"""


def _dot_numbers(step: Step) -> DotDimensionNumbers:
    names = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims")
    return DotDimensionNumbers(*[step.integers(name, ()) for name in names])


def _dot(step: Step) -> Nest:
    given = {"dimension_numbers": _dot_numbers(step), **_summing(step)}
    return step.apply(REGISTRY["DotGeneral"], step.values, given)


def _ragged_dot(step: Step) -> Nest:
    numbers = RaggedDotDimensionNumbers(
        _dot_numbers(step), step.integers("lhs_ragged_dims"), step.integers("rhs_group_dims", ())
    )
    given = {"dimension_numbers": numbers, **_summing(step)}
    return step.apply(REGISTRY["RaggedDot"], step.values, given)


def _scaled_dot(step: Step) -> Nest:
    """HLO has both scales last, our operation each behind its operand."""
    given = {"dimension_numbers": _dot_numbers(step), **_summing(step)}
    step.count(4)
    lhs, rhs, lhs_scale, rhs_scale = step.values
    return step.apply(REGISTRY["ScaledDot"], [lhs, lhs_scale, rhs, rhs_scale], given)


def window_fields(step: Step, rank: int) -> dict[str, Any]:
    """The fields of a window under HLO's names, one entry for each of `rank` dimensions."""
    form = "{size=3x3 stride=2x2 pad=0_1x0_1}"
    found = step.parsed("window", notation.window, form, {})
    if any(len(rows) != rank for rows in found.values()):
        step.reject_attribute("window", f"It has {rank} dimensions.")
    fields: dict[str, Any] = {}
    for name in ("size", "stride", "lhs_dilate", "rhs_dilate"):
        fields[name] = tuple([row[0] for row in found.get(name, ((1,),) * rank)])
    fields["pad"] = found.get("pad", ((0, 0),) * rank)
    fields["rhs_reversal"] = tuple(
        [row[0] == 1 for row in found.get("rhs_reversal", ((0,),) * rank)]
    )
    return fields


def _convolution(step: Step) -> Nest:
    try:
        numbers = ConvolutionDimensionNumbers.from_labels(step.text("dim_labels"))
    except ValueError:
        step.reject_attribute("dim_labels", "It is such as dim_labels=b01f_01io->b01f.")
    window = window_fields(step, len(numbers.input_spatial_dimensions))
    sizes = step.operand(1, 2).dimensions
    spatial = [sizes[at] for at in numbers.kernel_spatial_dimensions if at < len(sizes)]
    if step.has("window") and list(window["size"]) != spatial:
        step.reject_attribute("window", f"The kernel's sizes are {spatial}.")
    given = {
        "window_strides": window["stride"],
        "padding": window["pad"],
        "lhs_dilation": window["lhs_dilate"],
        "rhs_dilation": window["rhs_dilate"],
        "window_reversal": window["rhs_reversal"],
        "dimension_numbers": numbers,
        "feature_group_count": step.integer("feature_group_count", 1),
        "batch_group_count": step.integer("batch_group_count", 1),
        **_summing(step),
    }
    return step.apply(REGISTRY["ConvGeneralDilated"], step.values, given)


def _gather(step: Step) -> Nest:
    numbers = GatherDimensionNumbers(
        step.integers("offset_dims"),
        step.integers("collapsed_slice_dims"),
        step.integers("start_index_map"),
        step.integer("index_vector_dim"),
        step.integers("operand_batching_dims", ()),
        step.integers("start_indices_batching_dims", ()),
    )
    given = {
        "dimension_numbers": numbers,
        "slice_sizes": step.integers("slice_sizes"),
        "indices_are_sorted": step.flag("indices_are_sorted"),
    }
    return step.apply(REGISTRY["Gather"], step.values, given)


def _scatter(step: Step) -> Nest:
    numbers = ScatterDimensionNumbers(
        step.integers("update_window_dims"),
        step.integers("inserted_window_dims"),
        step.integers("scatter_dims_to_operand_dims"),
        step.integer("index_vector_dim"),
        step.integers("input_batching_dims", ()),
        step.integers("scatter_indices_batching_dims", ()),
    )
    given = {
        "update_computation": step.computation("to_apply"),
        "dimension_numbers": numbers,
        "indices_are_sorted": step.flag("indices_are_sorted"),
        "unique_indices": step.flag("unique_indices"),
    }
    return step.apply(REGISTRY["Scatter"], step.values, given)


#: By opcode.
PRODUCTS: dict[str, Entry] = {
    "convolution": entry(
        _convolution,
        """window dim_labels feature_group_count batch_group_count operand_precision algorithm""",
    ),
    "dot": entry(_dot, _DOT),
    "gather": entry(
        _gather,
        """offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes
        operand_batching_dims start_indices_batching_dims indices_are_sorted""",
    ),
    "ragged-dot": entry(_ragged_dot, f"{_DOT} lhs_ragged_dims rhs_group_dims"),
    "scaled-dot": entry(_scaled_dot, _DOT),
    "scatter": entry(
        _scatter,
        """to_apply update_window_dims inserted_window_dims scatter_dims_to_operand_dims
        index_vector_dim input_batching_dims scatter_indices_batching_dims indices_are_sorted
        unique_indices""",
    ),
}
