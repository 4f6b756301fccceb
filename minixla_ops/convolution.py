"""Convolutions: the operation ConvGeneralDilated, and five builders that make it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from minixla.core.attributes import Integer, Integers, Optional, TypeAttribute
from minixla.core.attributes import Boolean
from minixla.core.attributes import Sequence as SequenceAttribute
from minixla.core.element_types import ElementType, element_type
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, shape_of
from minixla_ops.convolution_dimensions import ConvolutionDimensionNumbers, ConvolutionDimensions
from minixla_ops.products import Precision, PrecisionAttribute, Product, matrix_product
from minixla_ops.windows import (
    PaddingPairs,
    Window,
    padded_base,
    resolve_padding,
    window_view,
)

__all__ = [
    "ConvolutionDimensionNumbers",
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
]
