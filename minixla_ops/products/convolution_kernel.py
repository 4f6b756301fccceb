"""Import of calls of `minixla/engine/kernels/convolutions.cc`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import minixla_ops as ops
from minixla.core import Graph, Shape
from minixla.typing import Array

#: Call targets by the element type in which they sum.
TARGETS = {"f32": "minixla_convolution_f32", "f64": "minixla_convolution_f64"}


def convolution_of(
    call: Any, shapes: Sequence[Shape], programs: Sequence[Graph] = ()
) -> Callable[..., Array] | None:
    """Return the convolution that a CustomCall computes; None if its attributes differ."""
    options = dict(call.options)
    count = shapes[0].rank - 2
    try:
        lists = [options[name][1] for name in ("window_strides", "lhs_dilation", "rhs_dilation")]
        strides, holes, inner = (items[-count:] for items in lists)
        padding = options["padding"][1][-2 * count :]
        labels = options["dim_labels"]
    except (KeyError, IndexError, TypeError):
        return None
    pairs = list(pairwise(padding))[::2]
    return lambda x, w: ops.conv_general_dilated(x, w, strides, pairs, holes, inner, labels)
