"""The five builders of convolutions, from the plainest to the most general.

All make one operation, ConvGeneralDilated. What they leave out is: dimensions in the order batch,
features, spatial (the kernel's: output features, input features, spatial), no dilation, no
reversal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.builders import named_like
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import shape_of
from minixla_ops.folds.sliding_windows import resolve_window, sizes_at
from minixla_ops.products.convolution import ConvGeneralDilated
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.vocabulary.shorthand import listed


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
    window_reversal: Sequence[bool] | None = None,
) -> Any:
    """See ConvGeneralDilated, whose documentation this function gets."""
    strides = listed(window_strides)
    count = len(strides) if isinstance(strides, tuple) else 0
    if dimension_numbers is None:
        shape = shape_of(lhs)
        rank = shape.rank if isinstance(shape, Shape) else 2
        dimension_numbers = ConvolutionDimensionNumbers.default(max(rank, 2))
    is_named = isinstance(padding, str) and padding.upper() in ("SAME", "VALID")
    attributes: tuple[Any, ...] = (
        strides,
        ((0, 0),) * count if is_named else padding,
        *[(1,) * count if each is None else each for each in (lhs_dilation, rhs_dilation)],
        (False,) * count if window_reversal is None else window_reversal,
        *(dimension_numbers, feature_group_count, batch_group_count),
        *(precision_config, preferred_element_type),
    )
    operation = ConvGeneralDilated(*attributes)
    if is_named:
        operation = _padded(operation, padding, shape_of(lhs), shape_of(rhs))
    return operation(lhs, rhs)


named_like(conv_general_dilated, ConvGeneralDilated)


@api_boundary
def _padded(
    operation: ConvGeneralDilated, padding: Any, lhs: AnyShape, rhs: AnyShape
) -> ConvGeneralDilated:
    """The operation with the padding that "SAME" or "VALID" stands for."""
    operation.infer((lhs, rhs))  # it refuses what does not fit
    given, kernel = operation.array_shapes([lhs, rhs])
    base = sizes_at(given, operation.dimension_numbers.input_spatial_dimensions)
    window = operation.window(kernel.dimensions)._replace(padding=padding)
    return operation.replace(padding=resolve_window(base, *window).padding)


def _plainer(name: str, what: str, *omitted: str) -> Callable[..., Any]:
    """`conv_general_dilated` under another name, without some of its parameters."""
    given = inspect.signature(conv_general_dilated).parameters.values()
    kept = [each for each in given if each.name not in omitted]
    plain = inspect.Signature([each.replace(annotation=each.empty) for each in kept])
    arguments = ", ".join([f"{each.name}={each.name}" for each in kept])
    source = f"def {name}{plain}:\n    return conv_general_dilated({arguments})\n"
    space = {"conv_general_dilated": conv_general_dilated, "__name__": __name__}
    exec(compile(source, __file__, "exec"), space)
    function: Any = space[name]
    types = {each.name: each.annotation for each in kept}
    function.__annotations__ = {**types, "return": "Any"}
    summary = f"A convolution with {what}."
    function.__doc__ = f"{summary}\n\nArgs, result and errors: see `conv_general_dilated`."
    return function


_DILATIONS = "lhs_dilation", "rhs_dilation", "window_reversal"
_LEFT_OUT = *_DILATIONS, "dimension_numbers"
_NAMED, _USUAL = '"SAME" or "VALID" padding', "dimensions in the default order"

conv = _plainer("conv", f"{_NAMED} and {_USUAL}", *_LEFT_OUT)
conv_with_general_padding = _plainer(
    "conv_with_general_padding", f"explicit padding and {_USUAL}", *_LEFT_OUT
)
conv_with_general_dimensions = _plainer(
    "conv_with_general_dimensions", f"{_NAMED} and given dimension numbers", *_DILATIONS
)
conv_general = _plainer(
    "conv_general", "explicit padding and given dimension numbers, without dilation", *_DILATIONS
)
