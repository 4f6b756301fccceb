"""scan, map and associative_scan: apply functions to the elements of arrays along an axis."""

from collections.abc import Callable, Sequence
from functools import partial

from jax.tree_util import tree_map, tree_structure, tree_unflatten

import minixla.numpy as mxnp
import minixla_ops as ops
from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import nested, shape_of
from minixla.engine.float0 import flatten, structure_places, with_axis
from minixla.engine.random_keys import shapes_of_members
from minixla.engine.structures import PyTreeDef
from minixla.numpy.operands import static_int
from minixla.transforms.arguments import checked_function, misfit
from minixla.transforms.control_flow import (
    carry_places,
    lifted,
    runs_in_python,
    stable_body,
    steps_at_a_time,
)
from minixla.transforms.pytree_paths import lifted_leaves, other_structure
from minixla.transforms.typed_functions import Function, Result
from minixla.transforms.vmap import vmap
from minixla.typing import Array, PyTree
from minixla_ops.control_flow.scan import scan_all
from minixla_ops.helpers.shorthand import array_shape


@api_boundary
@checks_kinds
def scan(
    f: Callable[[PyTree, PyTree], tuple[Result, PyTree]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Result, PyTree]:
    """Scan a function along leading axes; return the carry and the results (JAX: lax.scan).

        for x in xs: carry, y = f(carry, x)

    `_split_transpose` is accepted for compatibility with JAX, without effect.

    Args:
        f: from the carry and one element to the next carry, with the same structure and types, and
            a result; it may read other values, including traced ones.
        init: the initial carry, a pytree of arrays.
        xs: a pytree of arrays, whose leading axes index the steps; or None.
        length: the number of steps, required if `xs` has no arrays.
        reverse: whether to begin at the end; results are at the positions of the elements.
        unroll: the number of steps that are unrolled; True: all.

    Returns:
        The last carry, and the results, one array for each array of a result of `f`.

    Raises:
        TransformError: the structure of the carry changes, `f` does not return a pair, or the
            length is unknown.
        ShapeError: the shapes of the carry change, or the arrays have different lengths.

    Example:
        >>> mx.scan(lambda total, x: (total + x, total * x), 0, np.int32([1, 2, 3]))
        (Array(6, dtype=int32), Array([0, 2, 9], dtype=int32))
    """
    checked_function(f, "scan")
    elements, xs_tree = lifted("scan", "xs", xs)
    count = _length("scan", "xs", elements, xs_tree, length)
    if count and runs_in_python():
        return step_by_step(f, init, tree_unflatten(xs_tree, elements), count, reverse)
    size = steps_at_a_time("scan", unroll) or count
    if size > 1 and count:
        several, xs = partial(_several, f, reverse), tree_unflatten(xs_tree, elements)
        return _in_blocks(several, init, xs, count, size, reverse)
    where = carry_places(f, 0, init)
    (leaves, carry_tree), (_, tree) = flatten(init), flatten((init, xs))
    leaves = lifted_leaves("scan", leaves, where)
    check = partial(_check_pair, carry_tree)
    staged, leaves = stable_body("scan", f, tree, leaves, where, check, elements)
    graph, read = staged.graph, staged.read
    # The function takes (captured, carry, elements). Scan takes the elements first, and carries the
    # captured values.
    first = len(read) + len(leaves)
    inputs = [*graph.inputs[first:], *graph.inputs[:first]]
    outputs = [*graph.outputs[len(leaves) :], *graph.inputs[: len(read)]]
    outputs += graph.outputs[: len(leaves)]
    step = Graph(inputs, graph.instructions, outputs, graph.name)
    stacked, carried = scan_all(step, elements, [*read, *leaves], count, is_reverse=reverse)
    carry, ys = staged.results([*carried[len(read) :], *stacked])
    return carry, with_axis(ys, count)


def step_by_step(
    f: Function, init: PyTree, xs: PyTree, count: int, reverse: bool
) -> tuple[PyTree, PyTree]:
    """Run a scan without a loop: call its function once for each step."""
    carry, steps = init, range(count)[::-1] if reverse else range(count)
    ys: list[PyTree] = [None] * count
    for step in steps:
        carry, ys[step] = f(carry, tree_map(lambda x, at=step: x[at], xs))
    return carry, _combined(lambda rows: mxnp.stack(rows), ys)


def _length(
    subject: str,
    name: str,
    leaves: Sequence[Array],
    tree: PyTreeDef,
    length: int | None = None,
    axis: int = 0,
) -> int:
    """Return the size along an axis of all leaves of the pytree `name`, or `length`."""
    shapes: list[AnyShape] = shapes_of_members(tree, [shape_of(leaf) for leaf in leaves])

    def size_of(shape: AnyShape) -> int | None:
        if isinstance(shape, Shape) and -shape.rank <= axis < shape.rank:
            return shape.dimensions[axis]
        return None

    sizes = {*[size_of(shape) for shape in shapes], *([] if length is None else [int(length)])}
    if len(sizes) == 1 and (size := next(iter(sizes))) is not None:
        return size
    pairs = zip(structure_places(name, tree), shapes, strict=True)
    details = [*[f"{place}: {shape}" for place, shape in pairs], f"length = {length}"]
    if not sizes:
        problem, advice = "the number of steps is unknown", "Pass length, or arrays to scan along."
        raise misfit(subject, problem, [f"{name} has no arrays", *details], advice)
    problem = "must all have" if None in sizes else "must be equal in size along"
    advice = (
        "All sizes must be equal, and equal to length if it is passed; let f capture other values."
    )
    raise explain(
        ShapeError, subject, f"the arrays of {name} {problem} axis {axis}", details, advice
    )


def _check_pair(carry: PyTreeDef, returned: PyTreeDef) -> None:
    """Raise TransformError unless a step's result is a pair with the carry's structure."""
    children, (kind, _) = returned.children(), returned.node_data() or (object, None)
    advice = "Return a pair (carry, result); the result may be None."
    if len(children) != 2 or not issubclass(kind, (tuple, list)):
        details = [f"it returned {returned}", f"the carry is {carry} of {carry.num_leaves} arrays"]
        raise misfit("scan", "f must return the next carry and a result", details, advice)
    if children[0] != carry:
        problem = "f must return a carry with the structure that it takes"
        both = ("it takes", carry), ("it returns", children[0])
        raise other_structure("scan", problem, "the carry", *both, advice)


def _in_blocks(
    several: Function, init: PyTree, xs: PyTree, count: int, size: int, reverse: bool = False
) -> tuple[PyTree, PyTree]:
    """Run a scan by `several(carry, rows, number)`, `size` of `count` steps at a time."""
    size = min(size, count + 1)  # then no block is full; `size` may be any integer
    whole, rest = divmod(count, size)
    # In reverse, the steps that do not fill a block are the first ones of xs, which run last.
    cut = rest if reverse else whole * size
    main = tree_map(lambda x: x[cut:] if reverse else x[:cut], xs)
    blocks = tree_map(lambda x: x.reshape((whole, size, *x.shape[1:])), main)
    carry, ys = scan(lambda c, block: several(c, block, size), init, blocks, whole, reverse)
    ys = tree_map(lambda y: y.reshape((whole * size, *y.shape[2:])), ys)
    if not rest:
        return carry, ys
    odd = tree_map(lambda x: x[:cut] if reverse else x[cut:], xs)
    carry, more = several(carry, odd, rest)
    return carry, _combined(mxnp.concatenate, [more, ys] if reverse else [ys, more])


def _several(
    f: Function, reverse: bool, carry: PyTree, rows: PyTree, number: int
) -> tuple[PyTree, PyTree]:
    results: list[PyTree] = [None] * number
    for index in reversed(range(number)) if reverse else range(number):
        pair = f(carry, tree_map(lambda row, i=index: row[i], rows))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            _check_pair(tree_structure(carry), tree_structure(pair))
        carry, results[index] = pair
    return carry, _combined(mxnp.stack, results)


def _combined(combine: Callable[[Sequence[Array]], Array], values: Sequence[PyTree]) -> PyTree:
    """Combine pytrees with equal structures, leaf by leaf, with `combine`."""
    taken = [flatten(value) for value in values]
    columns = zip(*[leaves for leaves, _ in taken], strict=True)
    return tree_unflatten(taken[0][1], [combine(column) for column in columns])


@api_boundary
@checks_kinds
def map(f: Callable[[PyTree], Result], xs: PyTree, *, batch_size: int | None = None) -> Result:
    """Apply a function to each element along leading axes, one by one (JAX: lax.map).

    Args:
        f: from one element to a result.
        xs: a pytree of arrays, whose leading axes have equal sizes.
        batch_size: the number of elements to process at a time, with `vmap`; default: one.

    Returns:
        The results, one array for each array of a result of `f`.

    Raises:
        ShapeError: the arrays have different lengths.
        AttributeValueError: `batch_size` is not a positive integer.

    Example:
        >>> mx.map(lambda x: x * x, np.int32([1, 2, 3]))
        Array([1, 4, 9], dtype=int32)
    """
    checked_function(f, "map")
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    size = static_int(batch_size, "map", "batch_size")
    if size < 1:
        problem = "batch_size must be at least 1"
        advice = "Pass the number of elements to process at a time, or omit it."
        raise explain(AttributeValueError, "map", problem, [f"batch_size = {batch_size}"], advice)
    leaves, tree = lifted("map", "xs", xs)
    count, xs = _length("map", "xs", leaves, tree), tree_unflatten(tree, leaves)
    return _in_blocks(lambda _, rows, number: ((), vmap(f)(rows)), (), xs, count, size)[1]


@api_boundary
@checks_kinds
def associative_scan(
    fn: Callable[[PyTree, PyTree], Result], elems: PyTree, reverse: bool = False, axis: int = 0
) -> Result:
    """Combine all prefixes of `elems` by an associative function (JAX: lax.associative_scan).

    It processes whole arrays in about 2 log2(N) calls of `fn` (Blelloch, Prefix sums and their
    applications, 1990). Derivatives and batching follow from the operations of `fn`.

    Args:
        fn: from two pytrees like `elems` to one, element by element along `axis`; associative.
        elems: a pytree of arrays with equal sizes along `axis`.
        reverse: whether to combine suffixes instead.
        axis: the axis of the elements.

    Returns:
        A pytree like `elems`, with the combination of all elements up to each position.

    Raises:
        ShapeError: an array lacks the axis, sizes differ, or a result of `fn` differs from its
            input.

    Example:
        >>> mx.associative_scan(lambda a, b: a * b, np.int32([1, 2, 3, 4]))
        Array([ 1,  2,  6, 24], dtype=int32)
    """
    checked_function(fn, "associative_scan")
    leaves, tree = lifted("associative_scan", "elems", elems)
    if not leaves:
        return elems
    size = _length("associative_scan", "elems", leaves, tree, axis=axis)
    axes = [axis % array_shape(leaf).rank for leaf in leaves]

    def combine(first: list[Array], second: list[Array]) -> list[Array]:
        with nested():
            combined = fn(tree_unflatten(tree, first), tree_unflatten(tree, second))
        leaves_out, tree_out = flatten(combined)
        if tree_out != tree or [shape_of(x) for x in leaves_out] != [shape_of(x) for x in first]:
            problem = "fn must return the structure and shapes that it takes"
            details = (
                f"it takes {_described(tree, first)}",
                f"it returns {_described(tree_out, leaves_out)}",
            )
            advice = (
                "It must combine arrays element by element and keep their structure and shapes."
            )
            raise explain(ShapeError, "associative_scan", problem, details, advice)
        return leaves_out

    def turned(values: list[Array]) -> list[Array]:
        pairs = zip(values, axes, strict=True)
        return [ops.rev(leaf, [at]) for leaf, at in pairs] if reverse else values

    scanned = _prefixes(combine, turned(leaves), axes, size)
    return tree_unflatten(tree, turned(scanned))


def _described(structure: PyTreeDef, leaves: Sequence[Array]) -> str:
    named = zip(structure_places("elems", structure), leaves, strict=True)
    return ", ".join([f"{place} {shape_of(leaf)}" for place, leaf in named])


def _prefixes(combine: Function, leaves: list[Array], axes: list[int], size: int) -> list[Array]:
    if size < 2:
        return leaves

    def part(values: list[Array], start: int, stop: int, stride: int = 1) -> list[Array]:
        pairs = zip(values, axes, strict=True)
        return [ops.slice_in_dim(x, start, stop, at, stride) for x, at in pairs]

    # Prefixes of pairs end at odd positions; those at even positions need one more element.
    pairs = combine(part(leaves, 0, size - 1, 2), part(leaves, 1, size, 2))
    half = size // 2
    odd, first = _prefixes(combine, pairs, axes, half), part(leaves, 0, 1)
    if size > 2:
        before = part(odd, 0, half - 1) if size % 2 == 0 else odd
        joined = zip(first, combine(before, part(leaves, 2, size, 2)), axes, strict=True)
        first = [ops.concat_in_dim([a, b], at) for a, b, at in joined]
    return [_interleaved(a, b, at) for a, b, at in zip(first, odd, axes, strict=True)]


def _interleaved(even: Array, odd: Array, axis: int) -> Array:
    """Interleave the elements of two arrays; the first may have one more."""
    shape, other = array_shape(even), array_shape(odd)
    both = other.dimensions[axis]
    rest = ops.slice_in_dim(even, both, shape.dimensions[axis], axis)
    even = ops.slice_in_dim(even, 0, both, axis)
    merged = (*other.dimensions[:axis], 2 * both, *other.dimensions[axis + 1 :])
    pairs = mxnp.stack([even, odd], axis + 1)
    return ops.concat_in_dim([ops.reshape(pairs, merged), rest], axis)
