"""Folds as programs of differentiable operations, what reductions derive by, and folds in NumPy.

A fold goes over the first dimension of its operands. Where the computation is associative it
combines neighbours in a tree of logarithmic depth, which keeps their order; otherwise it goes one
element at a time, as XLA:CPU evaluates short reductions.

NumPy folds monoids by ufuncs, in order computations of whole slices. Floats up to f32, and c64, are
summed and multiplied in double and rounded once, so that sums of up to a million elements are the
exact sum correctly rounded, but for cancellation. f64 and c128 are summed pairwise. XLA:CPU and
StableHLO's interpreter round intermediate sums to the element type: they are within eps * sum(|x|)
of the exact sum for up to ten thousand random elements.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.derived import jvp_graph
from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, remembered
from minixla.core.linear import spread
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla_ops.folds.sliding_windows import Window, padded_base, window_view
from minixla_ops.programs.computations import MONOIDS, apply_computation, identity_of, monoid_of
from minixla_ops.programs.reference_evaluation import apply_elementwise
from minixla_ops.vocabulary.batch_dimensions import batch_member
from minixla_ops.vocabulary.shorthand import Values, array_shape, instantiate

Arrays = Sequence[np.ndarray]


def fold(computation: Graph, operands: Values, initials: Values) -> list[Any]:
    """Values folded over the first dimension, from scalars or values of the results' dimensions."""
    count = array_shape(operands[0]).dimensions[0]
    in_pairs = count > 2 and is_associative(computation)
    while in_pairs and count > 1:
        even = count - count % 2
        lower, upper = (
            [ops.slice_in_dim(value, start, even, 0, 2) for value in operands] for start in (0, 1)
        )
        combined = apply_computation(computation, [*lower, *upper])
        if count % 2:
            last = [ops.slice_in_dim(value, even, count, 0) for value in operands]
            combined = [ops.concat_in_dim(pair, 0) for pair in zip(combined, last, strict=True)]
        operands, count = combined, (count + 1) // 2
    rows = [[batch_member(value, 0, index) for value in operands] for index in range(count)]
    return fold_in_order(computation, rows, initials, array_shape(operands[0]).dimensions[1:])


def fold_in_order(
    computation: Graph,
    rows: Iterable[Values],
    initials: Values,
    sizes: Sequence[int],
    present: Any = None,
) -> list[Any]:
    """`fold` of rows of N values of dimensions `sizes`, one after the other.

    `present` says where each row takes part (default: everywhere); its sizes 1 are stretched.
    """
    running = [
        each if array_shape(each).rank == len(sizes) else ops.broadcast_in_dim(each, sizes, ())
        for each in initials
    ]
    for row, there in zip(rows, repeat(None) if present is None else present, strict=False):
        combined = apply_computation(computation, [*running, *row])
        if there is not None and not there.all():
            whole = spread_mask(there, sizes)
            pairs = zip(combined, running, strict=True)
            combined = [ops.select(whole, new, old) for new, old in pairs]
        running = combined
    return running


def spread_mask(mask: np.ndarray, sizes: Sequence[int]) -> Any:
    """A mask with dimensions of size 1 stretched to `sizes`, kept small in the program."""
    return ops.broadcast_in_dim(mask, sizes, range(mask.ndim))


_TRIALS = 64


@remembered
def is_associative(computation: Graph) -> bool:
    """Whether f(f(a, b), c) = f(a, f(b, c)), as far as trying random values in double tells."""
    if monoid_of(computation) is not None:
        return True
    generator = np.random.default_rng(0)
    types = [array_shape(shape).element_type for shape in computation.output_shapes]
    a, b, c = ([_random(kind, generator) for kind in types] for _ in range(3))
    with np.errstate(all="ignore"):
        left = apply_elementwise(computation, [*apply_elementwise(computation, [*a, *b]), *c])
        right = apply_elementwise(computation, [*a, *apply_elementwise(computation, [*b, *c])])
        return all(map(_close, left, right))


def _random(kind: ElementType, generator: np.random.Generator) -> np.ndarray:
    """Random numbers, of either sign where there is one; floats in double for clear verdicts."""
    if kind.kind == "pred":
        return generator.integers(0, 2, _TRIALS) > 0
    if kind.is_integer:
        lowest = -(1 << min(kind.bits - 1, 4)) if kind.kind == "signed" else 0
        return generator.integers(lowest, 1 << min(kind.bits - 1, 4), _TRIALS).astype(kind.dtype)
    real = generator.normal(size=_TRIALS)
    return real + 1j * generator.normal(size=_TRIALS) if kind.is_complex else real


def _close(first: np.ndarray, second: np.ndarray) -> bool:
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    finite = np.isfinite(first) & np.isfinite(second)
    return bool(np.allclose(first[finite], second[finite], rtol=1e-3, atol=1e-3))


Halves = tuple[Values, Values]


def tangents_of_fold(
    computation: Graph, primals: Halves, tangents: Halves, apply: Callable[..., Values]
) -> tuple[Any, ...]:
    """The tangents of N values that are folded, which are folded together with them; None for zero.

    `apply` gets the computation that folds them together and two lists that are as long.
    """
    pairs = zip(*tangents, strict=True)
    moving = tuple([any(each is not None for each in pair) for pair in pairs])
    if not any(moving):
        return (None,) * len(moving)
    together, carried = paired_computation(computation, moving)
    joined = []
    for values, moved in zip(primals, tangents, strict=True):
        columns = zip(moved, values, carried, strict=True)
        joined.append([*values, *(instantiate(t, value) for t, value, flag in columns if flag)])
    return tuple(spread(carried, apply(together, *joined)[len(moving) :]))


@remembered
def paired_computation(
    computation: Graph, moving: tuple[bool, ...]
) -> tuple[Graph, tuple[bool, ...]]:
    """The computation that folds values together with tangents, and which of them have one.

    `moving` says which have one at the start.
    """
    while True:
        derived = jvp_graph(computation, (*moving, *moving))
        wider = tuple(map(operator.or_, moving, derived.known))
        if wider == moving:
            break
        moving = wider
    count, pairs = len(moving), sum(moving)
    shapes = computation.output_shapes
    tangents = list(compress(shapes, moving))

    def function(*arguments: Any) -> list[Any]:
        running, elements = arguments[: count + pairs], arguments[count + pairs :]
        primals = [*running[:count], *elements[:count]]
        outcome = evaluate_graph(derived.graph, [*primals, *running[count:], *elements[count:]])
        given = map(instantiate, spread(derived.known, outcome[count:]), shapes)
        return [*outcome[:count], *compress(given, moving)]

    name = f"jvp_{computation.name}"
    graph = closed_graph(function, [*shapes, *tangents] * 2, "reduce", name).pruned()
    return graph, moving


def _wide_dtype(monoid: str, dtype: np.dtype) -> np.dtype:
    """The NumPy type that elements of `dtype` are folded in; exact for every value of `dtype`."""
    if dtype.kind in "biu":
        return dtype
    if "int" in dtype.name:  # 2 and 4 bits: arithmetic modulo 2**8 is right modulo 2**4
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    if dtype.kind == "c":
        return np.dtype(np.complex128) if monoid in ("add", "mul") else dtype
    if monoid in ("add", "mul"):
        return np.dtype(np.float64)
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def fold_monoid(
    monoid: str, array: np.ndarray, axes: tuple[int, ...], initial: np.ndarray
) -> np.ndarray:
    """`array` folded over different `axes`, which the result no longer has, from a scalar."""
    dtype, wide = array.dtype, _wide_dtype(monoid, array.dtype)
    start = initial.astype(wide)
    repeated = math.prod([array.shape[axis] for axis in axes if not array.strides[axis]])
    if repeated > _FEW_COPIES:
        array = _fold_copies(monoid, array, axes)
    # ufuncs convert NumPy's own types piece by piece, those of ml_dtypes not at all.
    ordered = array if array.dtype.isbuiltin == 1 else array.astype(wide)
    if monoid == "add" and wide == array.dtype and wide.kind in "fc":
        # NumPy sums pairwise only where the summed elements lie side by side.
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        sizes = [array.shape[axis] for axis in kept]
        last = math.prod([array.shape[axis] for axis in axes])
        ordered = np.ascontiguousarray(array.transpose(*kept, *axes)).reshape(*sizes, last)
        axes = (len(kept),)
    with np.errstate(all="ignore"):
        folded = MONOIDS[monoid].ufunc.reduce(ordered, axis=axes, dtype=wide, initial=start)
        folded = _with_signs(
            monoid, folded, lambda ufunc: ufunc.reduce(np.signbit(ordered), axis=axes), start
        )
        return folded.astype(dtype)


_FEW_COPIES = 1 << 16


def _fold_copies(monoid: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`array` with one element, folded, in place of the same one many times along axes.

    Copies are folded in pairs, pairs of pairs and so on, as a constant may have any size.
    """
    wide, ufunc = _wide_dtype(monoid, array.dtype), MONOIDS[monoid].ufunc
    along = [axis for axis in axes if not array.strides[axis]]
    count = math.prod([array.shape[axis] for axis in along])
    first = tuple([slice(0, 1) if axis in along else slice(None) for axis in range(array.ndim)])
    power, folded = array[first].astype(wide), None
    with np.errstate(all="ignore"):
        while count:
            if count & 1:
                folded = power if folded is None else ufunc(folded, power)
            power, count = ufunc(power, power), count >> 1
    return np.asarray(folded)


# Of zeros, +0 is the larger and -0 the smaller, which NumPy's functions do not heed: a maximum that
# is zero is -0 only where every sign is negative, such a minimum where any is.
_OF_SIGNS = {"max": np.logical_and, "min": np.logical_or}


def _with_signs(
    monoid: str, folded: Any, fold_signs: Callable[[np.ufunc], Any], start: np.ndarray
) -> np.ndarray:
    """A folded array with the right signs of zeros; `fold_signs` folds the elements' signs."""
    folded, ufunc = np.asarray(folded), _OF_SIGNS.get(monoid)
    if ufunc is None or folded.dtype.kind != "f" or not (folded == 0).any():
        return folded
    is_negative = ufunc(fold_signs(ufunc), np.signbit(start))
    return np.where(folded == 0, np.where(is_negative, -0.0, 0.0).astype(folded.dtype), folded)


def fold_computation(computation: Graph, arrays: Arrays, initials: Arrays) -> list[np.ndarray]:
    """N arrays of equal dimensions folded over the first, in order, from N scalars."""
    count, *kept = arrays[0].shape
    rows = ([each[index] for each in arrays] for index in range(count))
    return _fold_rows(computation, rows, initials, kept, repeat(np.ones((), np.bool_)))


def _fold_rows(
    computation: Graph, rows: Iterable[Arrays], initials: Arrays, sizes: Sequence[int], present: Any
) -> list[np.ndarray]:
    """`fold_in_order` in NumPy; results have the element types of `initials`."""
    running: list[Any] = [np.broadcast_to(initial, sizes) for initial in initials]
    with np.errstate(all="ignore"):
        for row, there in zip(rows, present, strict=False):
            if there.any():
                combined = apply_elementwise(computation, [*running, *row])
                pairs = zip(combined, running, strict=True)
                is_whole = there.all()
                running = combined if is_whole else [np.where(there, *pair) for pair in pairs]
    pairs = zip(running, initials, strict=True)
    return [np.asarray(value).astype(start.dtype, copy=False) for value, start in pairs]


def fold_windows(
    computation: Graph, arrays: Arrays, window: Window, initials: Arrays
) -> list[np.ndarray]:
    """The elements of N arrays under each position of a window folded in order, from N scalars."""
    base = arrays[0].shape
    filled = map(padded_base, arrays, initials, repeat(window))
    views = [window_view(each, window) for each in filled]
    rows = ([view[(..., *index)] for view in views] for index in np.ndindex(*window.sizes))
    sizes, present = window.positions(base), window.present(base)
    return _fold_rows(computation, rows, initials, sizes, present)


def fold_windows_by_monoid(
    monoid: str, array: np.ndarray, window: Window, initial: np.ndarray
) -> np.ndarray:
    """The elements under each position of a window folded by a monoid, from a scalar."""
    wide, axes = _wide_dtype(monoid, array.dtype), tuple(range(-array.ndim, 0))
    start = initial.astype(wide)
    padded = padded_base(array.astype(wide, copy=False), identity_of(monoid, wide), window)

    def over(elements: np.ndarray, ufunc: np.ufunc) -> np.ndarray:
        return ufunc.reduce(window_view(elements, window), axis=axes, dtype=elements.dtype)

    with np.errstate(all="ignore"):
        ufunc = MONOIDS[monoid].ufunc
        folded = ufunc(start, over(padded, ufunc))
        folded = _with_signs(monoid, folded, lambda f: over(np.signbit(padded), f), start)
        return folded.astype(array.dtype, copy=False)
