"""Products of vectors, matrices and tensors; einsum as a path of pairwise DotGenerals."""

import importlib
from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from typing import Any

import jax

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program, weak_type_of
from minixla.numpy import operands as parameters
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import convert, kind_of, lifted, listed, marked, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.programs.computations import sum_over

#: Precisions by the values of JAX's `jax_default_matmul_precision`, which allows algorithms too.
_PRODUCTS = """
Returns:
    An array with the common element type of the operands, or with `preferred_element_type`.

Raises:
    ShapeError: the sizes of the axes differ.
"""


_PRECISIONS = {
    **dict.fromkeys(("default", "fastest", "bfloat16"), "DEFAULT"),
    **dict.fromkeys(("high", "bfloat16_3x", "tensorfloat32"), "HIGH"),
    **dict.fromkeys(("highest", "float32"), "HIGHEST"),
}


def _product(subject: str, a: Any, b: Any, numbers: Any, precision: Any, preferred: Any) -> Any:
    """DotGeneral of operands converted to one type."""
    lhs, rhs = parameters.convert_all(subject, [a, b])
    if precision is None:
        precision = _PRECISIONS.get(jax.config.jax_default_matmul_precision)  # type: ignore[attr-defined]  # JAX has it
    if preferred is None:
        product = ops.dot_general(lhs, rhs, numbers, precision)
        return marked(product, weak_type_of(a) and weak_type_of(b))
    wanted = parameters.requested_type(preferred, subject)
    is_narrower = wanted.bits < kind_of(lhs, subject).bits
    product = ops.dot_general(lhs, rhs, numbers, precision, None if is_narrower else wanted)
    return lifted(convert(product, wanted))


@documented(PARAMETERS, _PRODUCTS)
@one_program("a", "b")
@placeable("out_sharding")
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sum products over the last axis of `a` and the last but one (or only) axis of `b`.

    Args:
        b: an array; the result is the product if one of the two is a scalar.

    Example:
        >>> np.dot(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    ranks = [operand_shape(operand, "dot").rank for operand in (a, b)]
    contracting = ((ranks[0] - 1,), (max(ranks[1] - 2, 0),)) if all(ranks) else ((), ())
    return _product("dot", a, b, (contracting, ((), ())), precision, preferred_element_type)


_MATRICES = ops.DotDimensionNumbers((1,), (0,), (), ())


@documented(PARAMETERS, _PRODUCTS)
@one_program("a", "b")
@placeable("out_sharding")
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the matrix product, `a @ b`; leading axes broadcast.

    Args:
        a: an array [..., m, k], or a vector [k].
        b: an array [..., k, n], or a vector [k].

    Example:
        >>> np.matmul(np.array([[1, 2], [3, 4]]), np.array([[1, 0], [1, 1]]))
        Array([[3, 2],
               [7, 4]], dtype=int32)
    """
    left, right = operand_shape(a, "matmul"), operand_shape(b, "matmul")
    if left.rank == right.rank == 2:
        return _product("matmul", a, b, _MATRICES, precision, preferred_element_type)
    problem = advice = ""
    leading = zip(left.dimensions[-3::-1], right.dimensions[-3::-1], strict=False)
    if not left.rank or not right.rank:
        problem, advice = "an operand is a scalar", "Use multiply."
    elif any(one != other and 1 not in (one, other) for one, other in leading):
        problem = "the leading axes do not broadcast together"
        advice = "Aligned from the right, all sizes but the last two must be equal, or one is 1."
    elif left.dimensions[-1] != right.dimensions[-2:][0]:
        problem = "contracting dimensions differ in size"
        advice = "The last of a must be as large as the last but one, or only one, of b."
    if problem:
        raise parameters.shape_error("matmul", problem, advice, f"a {left}", f"b {right}")
    rank = max(left.rank, right.rank, 2) - 2
    outer = "".join(map(chr, range(ord("a"), ord("a") + rank)))
    lhs = lifted(a), outer[rank + 2 - left.rank :] + "MK"[-left.rank :]
    rhs = lifted(b), outer[rank + 2 - right.rank :] + "KN"[: right.rank]
    output = outer + "M" * (left.rank > 1) + "N" * (right.rank > 1)
    return _pair("matmul", lhs, rhs, output, {"K"}, precision, preferred_element_type)


@documented(PARAMETERS, _PRODUCTS)
@one_program("a", "b")
@placeable("out_sharding")
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sum products over pairs of axes.

    Args:
        axes: the number of last axes of `a` and first axes of `b`; or a pair: axes of `a` and the
            axes of `b` that they are paired with.

    Example:
        >>> np.tensordot(np.ones((2, 3, 4)), np.ones((4, 3)), axes=([1, 2], [1, 0]))
        Array([12., 12.], dtype=float32)
    """
    ranks = [operand_shape(operand, "tensordot").rank for operand in (a, b)]
    if isinstance(axes, (tuple, list)) and len(axes) == 2:
        pairs = [parameters.axes_of(listed(axes[at]), ranks[at], "tensordot") for at in (0, 1)]
    elif isinstance(axes, int) and 0 <= axes <= min(ranks):
        pairs = [tuple(range(ranks[0] - axes, ranks[0])), tuple(range(axes))]
    else:
        pairs = [(), (0,)]
    if len(pairs[0]) != len(pairs[1]):
        problem = "axes does not pair axes of a with axes of b"
        advice = "Give a count, or a pair of equally long lists of axes."
        raise parameters.index_error("tensordot", problem, advice, axes=axes, ranks=ranks)
    numbers = (tuple(pairs), ((), ()))
    return _product("tensordot", a, b, numbers, precision, preferred_element_type)


@documented(PARAMETERS, _PRODUCTS)
@one_program("a", "b")
def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products over the last axes; multiply if an operand is a scalar.

    Example:
        >>> np.inner(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    has_scalar = 0 in [operand_shape(operand, "inner").rank for operand in (a, b)]
    axes = 0 if has_scalar else (-1, -1)
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return tensordot(a, b, axes, **how)


@documented(PARAMETERS)
@one_program("a", "b")
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Multiply each element of `a` by each element of `b`, in row-major order.

    Returns:
        A matrix with a row for each element of `a` and a column for each element of `b`.

    Example:
        >>> np.outer(np.array([1, 2]), np.array([3, 4, 5]))
        Array([[ 3,  4,  5],
               [ 6,  8, 10]], dtype=int32)
    """
    parameters.refuse_out("outer", out)
    return mnp.multiply(mnp.expand_dims(mnp.ravel(a), 1), mnp.expand_dims(mnp.ravel(b), 0))


@documented(PARAMETERS, _PRODUCTS)
@one_program("a", "b")
def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum the products of all elements; the elements of `a` are conjugated.

    Example:
        >>> np.vdot(np.array([1 + 1j, 2]), np.array([1, 1j]))
        Array(1.+1.j, dtype=complex64)
    """
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return dot(mnp.ravel(mnp.conjugate(a)), mnp.ravel(b), **how)


@documented(PARAMETERS, _PRODUCTS)
@one_program("x1", "x2")
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products along an axis with x1 conjugated; the other axes broadcast.

    Args:
        axis: the axis.

    Example:
        >>> np.vecdot(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    row = mnp.expand_dims(mnp.moveaxis(mnp.conjugate(x1), axis, -1), -2)
    column = mnp.expand_dims(mnp.moveaxis(x2, axis, -1), -1)
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return mnp.squeeze(matmul(row, column, **how), (-2, -1))


@documented(_PRODUCTS)
@one_program()
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply matrices [..., m, k] by vectors [..., k].

    Args:
        x1: matrices [..., m, k].
        x2: vectors [..., k], whose leading axes broadcast with those of `x1`.

    Example:
        >>> np.matvec(np.array([[1, 2], [3, 4]]), np.array([[1, 0], [0, 1]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    _check_matrix(x1, "matvec", "x1")
    return mnp.squeeze(matmul(x1, mnp.expand_dims(x2, -1)), -1)


@documented(_PRODUCTS)
@one_program()
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply conjugated vectors [..., k] by matrices [..., k, n].

    Args:
        x1: vectors [..., k].
        x2: matrices [..., k, n], whose leading axes broadcast with those of `x1`.

    Example:
        >>> np.vecmat(np.array([1, 1]), np.array([[1, 2], [3, 4]]))
        Array([4, 6], dtype=int32)
    """
    _check_matrix(x2, "vecmat", "x2")
    return mnp.squeeze(matmul(mnp.expand_dims(mnp.conjugate(x1), -2), x2), -2)


def _check_matrix(x: Any, subject: str, name: str) -> None:
    if (shape := operand_shape(x, subject)).rank < 2:
        problem, advice = f"{name} is no matrix", "Give a matrix, or a stack of such."
        raise parameters.shape_error(subject, problem, advice, f"{name} {shape}")


@documented(PARAMETERS)
@one_program("a", "b")
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Compute the vector product of vectors of size 2 or 3 along an axis.

    The product of two vectors of size 2 is a scalar.

    Args:
        b: an array; its other axes broadcast with those of `a`.
        axisa: the axis of the vectors in `a`.
        axisb: the axis of the vectors in `b`.
        axisc: the axis of the vectors in the result.
        axis: all three.

    Returns:
        An array of vectors of size 3, or of scalars, of the shape that the other axes broadcast to.

    Example:
        >>> np.cross(np.array([1, 0, 0]), np.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    (a0, a1, a2), (b0, b1, b2) = _components(a, axisa), _components(b, axisb)
    last = mnp.subtract(mnp.multiply(a0, b1), mnp.multiply(a1, b0))
    if a2 is None and b2 is None:
        return last
    # A vector of size 2 has 0 as its third component.
    first = (0 if b2 is None else a1 * b2) - (0 if a2 is None else a2 * b1)
    second = (0 if a2 is None else a2 * b0) - (0 if b2 is None else a0 * b2)
    joined = mnp.stack([first, second, last], -1)
    return mnp.moveaxis(joined, -1, parameters.axis_of(axisc, joined.ndim, "cross"))


def _components(x: Any, axis: int) -> list[Any]:
    shape = operand_shape(x, "cross")
    size = shape.dimensions[parameters.axis_of(axis, shape.rank, "cross")]
    if size not in (2, 3):
        problem = f"vectors of size {size} have no vector product"
        advice = "They must have two or three components."
        raise parameters.shape_error("cross", problem, advice, f"given {shape}", axis=axis)
    return [*mnp.unstack(x, axis=axis), *([None] if size == 2 else [])]


# einsum: sums of products named by letters.


@documented(PARAMETERS, _PRODUCTS)
@placeable("out_sharding")
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the sum of products that `subscripts` describes.

    Args:
        subscripts: such as "ij,jk->ik", with a letter for each axis of each operand. Letters
            missing in the result are summed over, repeated ones take the diagonal, and ... stands
            for axes that broadcast. Or the first operand, followed by its axes as a list of
            integers, and so on, with the axes of the result last.
        *operands: arrays.
        optimize: how to order the pairs; see opt_einsum.

    Returns:
        An array whose axes are the letters of the result.

    Example:
        >>> np.einsum("ij,j->i", np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    parameters.refuse_out("einsum", out)
    text, arrays = _spelled_out(subscripts, operands)
    shapes = tuple([operand_shape(array, "einsum").dimensions for array in arrays])
    kind = parameters.common_type("einsum", *arrays)
    weak = all(map(weak_type_of, arrays)) and preferred_element_type is None
    wanted = parameters.requested_type(preferred_element_type, "einsum", kind)
    values = [lifted(convert(array, kind)) for array in arrays]
    for places, summed, step in _steps(text, shapes, _path(optimize, len(shapes))):
        inputs, output = step.split("->")
        pairs = zip(places, inputs.split(","), strict=True)
        named = [_without_repeats(values.pop(place), names) for place, names in pairs]
        if len(named) == 1:
            x, names = _summed(*named[0], {*named[0][1]} - {*output})
            values.append(mnp.transpose(x, [names.index(name) for name in output]))
        else:
            lhs, rhs = named
            values.append(_pair("einsum", lhs, rhs, output, summed, precision, wanted))
    return marked(lifted(convert(values[0], wanted)), weak)


_opt_einsum: Any = partial(importlib.import_module, "opt_einsum")  # late: it takes some 30 ms


def _spelled_out(subscripts: Any, operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    if not operands:
        problem, details = "there are no operands", f"subscripts {subscripts!r}"[:200]
        raise parameters.value_error("einsum", problem, "Give them behind the subscripts.", details)
    if isinstance(subscripts, str):
        return subscripts, operands
    try:
        text, arrays = _opt_einsum().parser.convert_interleaved_input([subscripts, *operands])
    except (KeyError, TypeError) as error:
        problem = "the subscripts are no text, nor operands and lists of axes in turn"
        details = f"subscripts of type {type(subscripts).__name__}"
        advice = 'Give "ij,jk->ik" and the operands, or each operand and a list of integers.'
        raise parameters.type_error("einsum", problem, advice, details, str(error)) from error
    return text, list(arrays)


def _path(optimize: Any, count: int) -> Any:
    """What opt_einsum calls a path for `count` operands, as a value that can be hashed."""
    if optimize is False:
        return ((0, 1),) * (count - 1) or ((0,),)
    if isinstance(optimize, list):
        return tuple([tuple(entry) if isinstance(entry, list) else entry for entry in optimize])
    return "optimal" if optimize is True else optimize


@lru_cache(maxsize=1024)
def _steps(text: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> Any:
    """The steps of a product: of which operands, which letters are summed, their subscripts."""
    _, contractions = _contraction("einsum", text, shapes, optimize, einsum_call=True)
    steps = tuple([(tuple(step[0]), frozenset(step[1]), step[2]) for step in contractions])
    if any(len(step[0]) > 2 for step in steps):
        problem, advice = "the path takes three operands or more at once", "Give a path of pairs."
        raise parameters.value_error("einsum", problem, advice, optimize=optimize)
    return steps


def _contraction(subject: str, text: str, shapes: Any, optimize: Any, **how: Any) -> Any:
    """A path, and what opt_einsum says of it."""
    try:
        return _opt_einsum().contract_path(text, *shapes, shapes=True, optimize=optimize, **how)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        problem = "the subscripts do not fit the operands"
        details = [f"operand {i} has shape {shape}" for i, shape in enumerate(shapes)]
        advice = "Give a letter for each axis; axes of one letter must be equal in size, or 1."
        raise parameters.value_error(
            subject, problem, advice, f"subscripts {text!r}", *details, str(error)
        ) from error


def _summed(x: Any, names: str, dropped: Collection[str]) -> tuple[Any, str]:
    """`x` summed over some of its names."""
    places, kind = [at for at, name in enumerate(names) if name in dropped], kind_of(x)
    if not places:
        return x, names
    total = convert(sum_over(convert(x, parameters.widened(kind)), places), kind)
    return total, "".join([name for name in names if name not in dropped])


def _without_repeats(x: Any, names: str) -> tuple[Any, str]:
    """`x` with the diagonal taken of axes that have one name."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            x = mnp.diagonal(x, 0, first, names.index(name, first + 1))
            names = names.replace(name, "", 2) + name
    return x, names


def _stretched_away(x: Any, names: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """`x` without axes of size 1 that the other operand has in full."""
    own = dict(zip(names, x.shape, strict=True))
    dropped = [name for name in names if own[name] == 1 and sizes.get(name, 1) != 1]
    x = mnp.squeeze(x, [names.index(name) for name in dropped]) if dropped else x
    return x, "".join([name for name in names if name not in dropped])


Named = tuple[Any, str]  # an array, and a letter for each of its axes


def _pair(subject: str, lhs: Named, rhs: Named, output: str, summed: Any, *how: Any) -> Any:
    """The product of two arrays; `how` is the precision and the preferred type.

    An axis that only one operand has, or has in full, is a free one of DotGeneral: nothing is
    repeated in memory.
    """
    sizes = [dict(zip(names, x.shape, strict=True)) for x, names in (lhs, rhs)]
    lhs, rhs = _stretched_away(*lhs, sizes[1]), _stretched_away(*rhs, sizes[0])
    lhs, lhs_names = _summed(*lhs, {*summed} - {*rhs[1]})
    rhs, rhs_names = _summed(*rhs, {*summed} - {*lhs_names})
    contracting = [name for name in lhs_names if name in summed]
    batch = [name for name in output if name in lhs_names and name in rhs_names]
    taken = {*contracting, *batch}
    free = ["".join([n for n in names if n not in taken]) for names in (lhs_names, rhs_names)]
    if all(free) and "".join(batch) + free[1] + free[0] == output:
        # In the other order the result needs no transposition.
        lhs, rhs, lhs_names, rhs_names, free = rhs, lhs, rhs_names, lhs_names, free[::-1]
    numbers = [
        tuple([side.index(name) for name in chosen])
        for chosen in (contracting, batch)
        for side in (lhs_names, rhs_names)
    ]
    product = _product(subject, lhs, rhs, ops.DotDimensionNumbers(*numbers), *how)
    names = [*batch, *free[0], *free[1]]
    return mnp.transpose(product, [names.index(name) for name in output])
