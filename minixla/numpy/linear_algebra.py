"""Products of matrices; einsum as a path of pairwise DotGenerals."""

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
from minixla.numpy.operands import convert, kind_of, lifted, marked, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike
from minixla_ops.programs.computations import sum_over

#: Sections that products share.
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
    """Compute a DotGeneral of operands converted to one type."""
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
        problem = "contracting dimensions must be equal"
        advice = "The last axis of a must be as large as the last but one, or the only one, of b."
    if problem:
        raise parameters.shape_error("matmul", problem, advice, f"a {left}", f"b {right}")
    rank = max(left.rank, right.rank, 2) - 2
    outer = "".join(map(chr, range(ord("a"), ord("a") + rank)))
    lhs = lifted(a), outer[rank + 2 - left.rank :] + "MK"[-left.rank :]
    rhs = lifted(b), outer[rank + 2 - right.rank :] + "KN"[: right.rank]
    output = outer + "M" * (left.rank > 1) + "N" * (right.rank > 1)
    return _pair("matmul", lhs, rhs, output, {"K"}, precision, preferred_element_type)


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
            for axes that broadcast. Alternatively, pass each operand, followed by its axes as a
            list of integers, and the axes of the result last.
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
        problem, details = "no operands are given", f"subscripts {subscripts!r}"[:200]
        raise parameters.value_error("einsum", problem, "Pass them after the subscripts.", details)
    if isinstance(subscripts, str):
        return subscripts, operands
    try:
        text, arrays = _opt_einsum().parser.convert_interleaved_input([subscripts, *operands])
    except (KeyError, TypeError) as error:
        problem = "the subscripts must be text, or operands that alternate with lists of axes"
        details = f"subscripts of type {type(subscripts).__name__}"
        advice = 'Pass "ij,jk->ik" and the operands, or each operand and a list of integers.'
        raise parameters.type_error("einsum", problem, advice, details, str(error)) from error
    return text, list(arrays)


def _path(optimize: Any, count: int) -> Any:
    """Return an opt_einsum path for `count` operands as a hashable value."""
    if optimize is False:
        return ((0, 1),) * (count - 1) or ((0,),)
    if isinstance(optimize, list):
        return tuple([tuple(entry) if isinstance(entry, list) else entry for entry in optimize])
    return "optimal" if optimize is True else optimize


@lru_cache(maxsize=1024)
def _steps(text: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> Any:
    """Return the steps of a product: their operands, summed letters and subscripts."""
    _, contractions = _contraction("einsum", text, shapes, optimize, einsum_call=True)
    steps = tuple([(tuple(step[0]), frozenset(step[1]), step[2]) for step in contractions])
    if any(len(step[0]) > 2 for step in steps):
        problem, advice = (
            "each step of the path must contract at most two operands",
            "Pass a path of pairs.",
        )
        raise parameters.value_error("einsum", problem, advice, optimize=optimize)
    return steps


def _contraction(subject: str, text: str, shapes: Any, optimize: Any, **how: Any) -> Any:
    """Return a path, and opt_einsum's description of it."""
    try:
        return _opt_einsum().contract_path(text, *shapes, shapes=True, optimize=optimize, **how)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        problem = "the subscripts do not fit the operands"
        details = [f"operand {i} has shape {shape}" for i, shape in enumerate(shapes)]
        advice = "Use a letter for each axis; axes with one letter must have equal sizes, or 1."
        raise parameters.value_error(
            subject, problem, advice, f"subscripts {text!r}", *details, str(error)
        ) from error


def _summed(x: Any, names: str, dropped: Collection[str]) -> tuple[Any, str]:
    """Sum `x` over some of its names."""
    places, kind = [at for at, name in enumerate(names) if name in dropped], kind_of(x)
    if not places:
        return x, names
    total = convert(sum_over(convert(x, parameters.widened(kind)), places), kind)
    return total, "".join([name for name in names if name not in dropped])


def _without_repeats(x: Any, names: str) -> tuple[Any, str]:
    """Take the diagonal of the axes of `x` that have the same name."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            x = mnp.diagonal(x, 0, first, names.index(name, first + 1))
            names = names.replace(name, "", 2) + name
    return x, names


def _stretched_away(x: Any, names: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """Remove the axes of size 1 from `x` that the other operand has in full."""
    own = dict(zip(names, x.shape, strict=True))
    dropped = [name for name in names if own[name] == 1 and sizes.get(name, 1) != 1]
    x = mnp.squeeze(x, [names.index(name) for name in dropped]) if dropped else x
    return x, "".join([name for name in names if name not in dropped])


Named = tuple[Any, str]  # an array, and a letter for each of its axes


def _pair(subject: str, lhs: Named, rhs: Named, output: str, summed: Any, *how: Any) -> Any:
    """Multiply two arrays; `how` is the precision and the preferred type.

    An axis that only one operand has, or has in full, is a free axis of DotGeneral. So nothing is
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
