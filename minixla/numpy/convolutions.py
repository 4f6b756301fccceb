"""Convolutions and correlations of vectors."""

from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.whole_programs import one_program
from minixla.numpy import operands
from minixla.numpy.operands import convert, lifted
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.elementwise.promotion import inexact_type

_SLIDING = """
Args:
    a: a vector.
    v: a vector; both are converted to a common float or complex type.
    mode: "full" for all sums; "same" for the central sums, as many as the longer vector has
        elements; "valid" for the sums over complete overlaps.
    precision: DEFAULT, HIGH or HIGHEST; see `minixla_ops.conv_general_dilated`.
    preferred_element_type: the type to accumulate in and return; integers then stay integers.

Returns:
    A vector.

Raises:
    ShapeError: an argument is not a vector, or has no elements.
    AttributeValueError: the mode is unknown.
"""


def _sliding(
    name: str, a: Any, v: Any, mode: str, precision: Any, preferred_element_type: Any
) -> Array:
    operands.refuse_others(mode, ("full", "same", "valid"), name, "mode")
    shapes = [operands.shape_of_rank(vector, (1,), name, "Pass vectors.") for vector in (a, v)]
    if not all(shape.size for shape in shapes):
        problem, details = "the vectors must not be empty", map(str, shapes)
        raise operands.shape_error(name, problem, "Check for size 0 first.", *details)
    common = operands.common_type(name, a, v)
    kind = inexact_type(common) if preferred_element_type is None else common
    image, kernel = (lifted(convert(vector, kind)) for vector in (a, v))
    is_correlation, is_turned = name == "correlate", shapes[0].size < shapes[1].size
    kernel = mnp.conjugate(kernel) if is_correlation else kernel
    image, kernel = (kernel, image) if is_turned else (image, kernel)
    size = kernel.shape[0]
    low, high = {"full": (size - 1, size - 1), "same": (size // 2, (size - 1) // 2)}.get(
        mode, (0, 0)
    )
    products = ops.conv_general_dilated(
        mnp.reshape(image, (1, 1, -1)),
        mnp.reshape(kernel if is_correlation else mnp.flip(kernel), (1, 1, -1)),
        (1,),
        [(low, high)],
        precision_config=precision,
        preferred_element_type=preferred_element_type,
    )
    return mnp.flip(products[0, 0]) if is_correlation and is_turned else products[0, 0]


@one_program("a", "v")
@documented(_SLIDING)
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolve two vectors.

    Example:
        >>> np.convolve(np.array([1, 2, 3]), np.array([1, 1]))
        Array([1., 3., 5., 3.], dtype=float32)
    """
    return _sliding("convolve", a, v, mode, precision, preferred_element_type)


@one_program("a", "v")
@documented(_SLIDING)
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Correlate two vectors; the second is conjugated.

    Example:
        >>> np.correlate(np.array([1, 2, 3]), np.array([1, 1]))
        Array([3., 5.], dtype=float32)
    """
    return _sliding("correlate", a, v, mode, precision, preferred_element_type)
