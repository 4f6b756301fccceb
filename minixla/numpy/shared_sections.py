"""Docstring sections that functions of this package share, for `minixla.core.docstrings`."""

#: The meaning of parameters, unless a function describes its own; and the usual errors.
PARAMETERS = """
Args:
    a: an array.
    ar1: an array.
    ar2: an array.
    arr: an array.
    ary: an array.
    b: an array.
    v: an array.
    val: an array or a scalar.
    x: an array or a scalar.
    x1: an array or a scalar.
    x2: an array or a scalar, which broadcasts with `x1`.
    axis: an axis or several; None for all.
    copy: ignored; arrays do not change.
    device: a device or a sharding for the result.
    fill_value: the padding if fewer than `size` are found.
    initial: a scalar that counts as an element.
    k: the distance of the diagonal above the main one, or below it if negative.
    keepdims: whether the reduced axes stay, with size 1.
    offset: the distance of the diagonal above the main one, or below it if negative.
    order: ignored.
    out: must be None; results are returned.
    out_sharding: a sharding for the result.
    overwrite_input: must be False; arrays do not change.
    precision: DEFAULT, HIGH or HIGHEST; see `minixla_ops.dot_general`.
    preferred_element_type: the type to accumulate in and return.
    promote_integers: whether to widen narrow integers to the default integer type.
    shape: a size, or a sequence of sizes.
    size: the number of results, required if the array is traced. More are cut off, fewer are
        padded.
    where: booleans that broadcast with the array, true for elements that count.

Returns:
    An array.

Raises:
    ShapeError: an argument is not an array, or has an unsuitable shape or element type.
    AttributeValueError: another argument is invalid, such as an axis out of range. Like ShapeError
        it is a ValueError.
"""
ONE_OPERAND = """
Returns:
    An array with the shape and element type of `x`.
"""
ONE_FLOAT = """
Returns:
    An array with the shape and element type of `x`; integers and booleans become floats.
"""
TWO_OPERANDS = """
Returns:
    An array of the shape that the operands broadcast to, with their common element type.

Raises:
    ShapeError: the shapes do not broadcast, or the function does not support the element type.
"""
TWO_FLOATS = """
Returns:
    An array of the shape that the operands broadcast to, with their common element type; integers
    and booleans become floats.

Raises:
    ShapeError: the shapes do not broadcast, or the function does not support the element type.
"""
BOOLEANS = """
Returns:
    Booleans of the shape that the operands broadcast to.
"""
REDUCED = """
Returns:
    An array with the shape of `a` without the axes, or with size 1 there if `keepdims`.

Raises:
    AttributeValueError: an axis is out of range or repeated.
"""
SQUARE = """
Args:
    a: square matrices [..., n, n].

Raises:
    MatrixError: `a` is not a square matrix or a stack of square matrices.
"""
