"""Argument handling that all functions share: checks, element types, axes, known values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core import element_types, errors
from minixla.core.element_types import F32, ElementType, canonical_element_type
from minixla.core.errors import ConcretizationError, ErrorType
from minixla.core.shapes import Shape
from minixla.core.source import warn
from minixla.core.tracing import Tracer, current_trace, host_array, weak_type_of
from minixla.typing import Array
from minixla_ops.elementwise import operators
from minixla_ops.elementwise.operators import Adjustment, convert, operand_shape
from minixla_ops.elementwise.promotion import inexact_type, result_type
from minixla_ops.helpers.shorthand import array_shape, full_like

#: An axis, several, or all.
Axis = int | Sequence[int] | None


def refusal(kind: type[ErrorType]) -> Callable[..., ErrorType]:
    """Return a function that creates errors of a class."""

    def error(subject: str, problem: str, advice: str, *details: str, **values: Any) -> ErrorType:
        """Return the error of `explain`, which also shows `values` by name."""
        named = [f"{name} = {value!r}" for name, value in values.items()]
        return errors.explain(kind, subject, problem, [*details, *named], advice)

    return error


value_error, shape_error = refusal(errors.AttributeValueError), refusal(errors.ShapeError)
# These are ValueErrors, too.
type_error, index_error = refusal(errors.ArgumentTypeError), refusal(errors.IndexingError)
axis_error, unknown_error = refusal(errors.AxisError), refusal(ConcretizationError)


def lifted(value: Any) -> Array:
    """Return `value` as an array of the current trace: a tracer, or an array of the engine."""
    return value if isinstance(value, Tracer) else current_trace().lift(value)


def kind_of(value: Any, subject: str = "operator") -> ElementType:
    """Return the element type of a user's array or number."""
    return operand_shape(value, subject).element_type


def keep_weak(result: Any, source: Any) -> Any:
    """Return `result`, marked as weakly typed if `source` is."""
    return marked(result, weak_type_of(source))


def marked(result: Any, weak: bool) -> Any:
    """Mark `result`, to which there is no other reference yet, as weakly typed if `weak`."""
    return operators.weakly_typed(result) if weak else result


def default_float() -> ElementType:
    """Return f32, or f64 in 64-bit mode."""
    return canonical_element_type(element_types.F64)


def default_int() -> ElementType:
    """Return s32, or s64 in 64-bit mode."""
    return canonical_element_type(element_types.S64)


def sum_type(kind: ElementType) -> ElementType:
    """Return the type of sums of `kind`: narrow integers widen to the default integer type."""
    if kind.kind not in ("pred", "signed", "unsigned"):
        return kind
    wide = canonical_element_type(element_types.U64) if kind.kind == "unsigned" else default_int()
    return wide if kind.bits < wide.bits else kind


def widened(kind: ElementType) -> ElementType:
    """Return the type to compute long sums of `kind` in: f32 for f16 and bf16."""
    return F32 if kind.name in ("f16", "bf16") else kind


def requested_type(dtype: Any, subject: str, default: ElementType | None = None) -> ElementType:
    """Return the element type for a dtype (None: `default`); warn if it gets fewer bits."""
    if dtype is None and default is not None:
        return default
    if isinstance(dtype, ElementType) and canonical_element_type(dtype) is dtype:
        return dtype
    try:
        declared = element_types.element_type(np.dtype(dtype) if hasattr(dtype, "dtype") else dtype)
    except TypeError as error:
        problem, advice = "dtype is not an element type", "Pass one such as mx.numpy.float32."
        raise shape_error(subject, problem, advice, dtype=dtype) from error
    kind = canonical_element_type(declared)
    if kind is not declared:
        narrowed = f"{subject}: dtype {declared.dtype} was requested and becomes {kind.dtype}"
        warn(f"{narrowed}; set jax_enable_x64 for 64-bit types.")
    return kind


def promoted(
    subject: str, operands: Sequence[Any], adjust: Adjustment | None = None
) -> tuple[list[Any], ElementType, bool]:
    """Broadcast operands to one shape, and convert them to one type.

    Also return that type, and whether all operands are weakly typed. `adjust` maps their common
    type to another one: `inexact_type` maps it to a float or complex type.
    """
    fitted, weak = operators.promote(subject, *operands, adjust=adjust)
    return [lifted(operand) for operand in fitted], array_shape(fitted[0]).element_type, weak


def common_type(subject: str, *operands: Any) -> ElementType:
    """Return the common element type of operands."""
    # Use a set, because lists of many numbers have few types.
    types = {
        (operand_shape(operand, subject).element_type, weak_type_of(operand))
        for operand in operands
    }
    return result_type(sorted(types, key=str))[0]


def inexact_operand(x: Any, subject: str) -> Array:
    """Return `x` as an array of a float or complex type."""
    kind = kind_of(x, subject)
    return lifted(x if kind.is_inexact else convert(x, inexact_type(kind)))


def as_bool(x: Any, subject: str) -> Any:
    """Test whether each element of `x` is nonzero, as pred."""
    kind, x = kind_of(x, subject), lifted(x)
    return x if kind.kind == "pred" else ops.ne(x, full_like(x, 0))


def without_nan(a: Any, subject: str, number: float | None) -> Any:
    """Replace NaN in `a` by a number; None keeps NaN."""
    if number is None or not kind_of(a, subject).is_inexact:
        return a
    a = lifted(a)
    return ops.select(ops.ne(a, a), full_like(a, number), a)


def checked_mask(where: Any, subject: str) -> Any:
    """Return `where`, which must be None or an array of booleans for the elements that count."""
    if where is not None and kind_of(where, subject).kind != "pred":
        problem, details = "where is not an array of booleans", f"where {operand_shape(where)}"
        raise shape_error(subject, problem, "Pass the result of a comparison.", details)
    return where


def convert_all(subject: str, operands: Sequence[Any], dtype: Any = None) -> list[Any]:
    """Convert operands to `dtype`, or to their common type; their shapes stay."""
    kind = common_type(subject, *operands) if dtype is None else requested_type(dtype, subject)
    return [convert(operand, kind) for operand in operands]


def from_members(members: Sequence[Any], kind: ElementType | None) -> Any:
    """Create an array from nested lists: a NumPy array if all their members are known."""
    # Use an explicit stack, because Python's recursion limit must not limit how deep lists nest.
    leaves, waiting = [], list(members)
    while waiting:
        current = waiting.pop()
        target = waiting if isinstance(current, (list, tuple)) else leaves
        target.extend(current if target is waiting else [current])
    if not any(isinstance(leaf, Tracer) or hasattr(leaf, "aval") for leaf in leaves):
        return of_host(members, leaves, kind)
    kind = common_type("array", *leaves) if kind is None else kind
    return mnp.stack([mnp.array(member, kind) for member in members])


def of_host(members: Any, leaves: Sequence[Any], kind: ElementType | None) -> Any:
    """Convert a number, or nested lists of the numbers `leaves`, to a NumPy array."""
    kind = kind or (common_type("array", *leaves) if leaves else default_float())
    try:
        with np.errstate(all="ignore"):
            return np.asarray(members, dtype=kind.dtype)
    except OverflowError:
        for leaf in leaves:
            number = leaf.item() if isinstance(leaf, np.generic) else leaf
            host_array(number, Shape(kind, ()), "array", "a member")
        raise
    except (ValueError, TypeError) as error:
        advice = f"Pass numbers that {kind} can hold; lists of one level must be equally long."
        raise shape_error("array", "the value is not convertible", advice, str(error)) from error


def listed(value: Any) -> list[Any]:
    """Return the members of a sequence as a list; another value becomes the only member."""
    if type(value) is tuple or type(value) is list:
        return [*value]
    if getattr(value, "ndim", 1) == 0 or not isinstance(value, Iterable) or type(value) is dict:
        return [value]
    return list(value)


def axis_of(axis: Any, rank: int, subject: str) -> int:
    """Return an axis counted from the front; it must be an integer in [-rank, rank)."""
    number = axis if type(axis) is int else static_int(axis, subject, "axis")
    if not -rank <= number < rank:
        problem = f"axis {number} is out of bounds for an array of {rank} dimensions"
        advice = f"It must be in [{-rank}, {rank})." if rank else "A scalar has no axes."
        raise axis_error(subject, problem, advice)
    return number % rank


def axes_of(axis: Any, rank: int, subject: str) -> tuple[int, ...]:
    """Return distinct axes counted from the front; None stands for all."""
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int:
        return (axis_of(axis, rank, subject),)
    axes = tuple([axis_of(number, rank, subject) for number in listed(axis)])
    if len(set(axes)) != len(axes):
        problem, details = "an axis is repeated", f"the array has {rank} dimensions"
        advice = "Name each axis once; negative ones count from the end."
        raise value_error(subject, problem, advice, details, axis=axis)
    return axes


def along(a: Any, axis: Any, subject: str) -> tuple[Any, tuple[int, ...], int]:
    """Return an array, its sizes and an axis; None flattens the array in row-major order."""
    shape = operand_shape(a, subject)
    if axis is None and shape.rank != 1:
        return keep_weak(ops.reshape(lifted(a), (shape.size,)), a), (shape.size,), 0
    axis = 0 if axis is None else axis
    return a, shape.dimensions, axis_of(axis, shape.rank, subject)


def resized(sizes: Sequence[int], axis: int, *new: int) -> tuple[int, ...]:
    """Return `sizes` with the size of one axis replaced by any number of others."""
    return (*sizes[:axis], *new, *sizes[axis + 1 :])


def spread(folded: Any, axes: Collection[int], like: Any) -> Any:
    """Repeat a result of folding over `axes` along them, to the shape of `like`."""
    kept = [axis for axis in range(like.ndim) if axis not in axes]
    return ops.broadcast_in_dim(folded, like.shape, kept)


def weights_for(subject: str, a: Any, weights: Any, axis: Axis) -> Any:
    """Return weights that broadcast with `a`, from weights with its shape or that of axes."""
    sizes, weight_sizes = (operand_shape(operand, subject).dimensions for operand in (a, weights))
    if weight_sizes == sizes:
        return weights
    axes = axes_of(axis, len(sizes), subject)
    if weight_sizes != tuple([sizes[axis] for axis in axes]):
        problem, advice = (
            "the weights do not fit the array",
            "Pass weights with its shape, or with the size of each axis.",
        )
        raise shape_error(
            subject, problem, advice, axis=axis, shape=sizes, weights_shape=weight_sizes
        )
    weights = mnp.transpose(weights, np.argsort(axes).tolist())
    return mnp.expand_dims(weights, [at for at in range(len(sizes)) if at not in axes])


def members(arrays: Any, subject: str) -> list[Any]:
    """Return the arrays in a sequence, or the arrays along the first axis of an array."""
    if not isinstance(arrays, (list, tuple)):
        shape_of_rank(arrays, range(1, 99), subject, "Pass a sequence of arrays.")
        arrays = mnp.unstack(arrays)
    if not arrays:
        raise type_error(subject, "no array is given", "Pass one array or more.")
    return list(arrays)


def refuse_in_place(subject: str, inplace: bool, also: str = "") -> None:
    """Raise an error if an array is to change in place."""
    if inplace:
        advice = "Pass inplace=False and use the result."
        raise value_error(subject, f"arrays do not change in place{also}", advice)


def refuse_others(value: Any, allowed: Collection[Any], subject: str, name: str) -> None:
    """Raise an error if `value` is not in `allowed`."""
    if getattr(value, "ndim", 0) or value not in (*allowed,):
        choices = " or ".join([f'"{choice}"' for choice in allowed])
        raise type_error(subject, f"{name} {value!r} is unknown", f"Pass {choices}.")


def shape_of_rank(
    value: Any, ranks: Container[int], subject: str, advice: str, problem: str = ""
) -> Shape:
    """Return the shape of an array; raise an error if its rank is not in `ranks`."""
    shape = operand_shape(value, subject)
    if shape.rank not in ranks:
        problem = problem or f"the array has {shape.rank} dimensions"
        raise shape_error(subject, problem, advice, f"given {shape}")
    return shape


def static_int(value: Any, subject: str, name: str) -> int:
    """Return a Python integer, which must be known while tracing."""
    try:
        return operator.index(value)
    except ConcretizationError:
        problem = f"{name} must be known when the function is traced"
        advice = "It determines shapes: give a Python integer, or name it in static_argnums."
        raise unknown_error(subject, problem, advice, f"{name} = {value!r}") from None
    except TypeError:
        problem, details = f"{name} is not an integer", f"{name} = {value!r}"
        raise type_error(subject, problem, "Pass a Python integer.", details) from None


def static_size(value: Any, subject: str, name: str) -> int:
    """Return a `static_int` that is not negative."""
    size = static_int(value, subject, name)
    if size < 0:
        raise value_error(subject, f"{name} is negative", "Pass 0 or more.", f"{name} = {size}")
    return size


def static_sizes(shape: Any, subject: str) -> tuple[int, ...]:
    """Return the sizes in a shape, which may be a single size."""
    sizes = tuple([static_int(size, subject, "shape") for size in listed(shape)])
    if any(size < 0 for size in sizes):
        raise value_error(subject, "a size is negative", "Sizes must be >= 0.", shape=sizes)
    return sizes


def host_indices(indices: Any) -> Any:
    """Convert a tuple of NumPy index arrays to arrays of the default integer type."""
    return tuple([lifted(index.astype(default_int().dtype)) for index in indices])


def known(value: Any) -> Any:
    """Return the elements of a value that is known while tracing; None for others."""
    with suppress(TypeError):
        return np.asarray(value)
    return None


def concrete(value: Any, subject: str, advice: str) -> np.ndarray:
    """Return the elements of a value, which must be known while tracing."""
    try:
        return np.asarray(value)
    except TypeError as error:
        if not isinstance(value, Tracer) and not hasattr(value, "aval"):
            raise
        problem = "the shape of the result depends on values that are unknown while tracing"
        details = f"given {operand_shape(value, subject)}"
        raise unknown_error(subject, problem, advice, details) from error
    except ValueError as error:
        advice = "Lists of one level must be equally long."
        raise shape_error(subject, "the value is not convertible", advice, str(error)) from error


def refuse_out(subject: str, out: Any) -> None:
    """Raise an error if `out` is given."""
    if out is not None:
        advice = "Arrays do not change: use the function's result."
        raise value_error(subject, "out is not supported", advice)
