"""cond, switch, while_loop, fori_loop, scan, map: control flow that programs hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.tree_util import tree_map, tree_structure, tree_unflatten

from minixla.core.errors import AttributeValueError, ShapeError, TransformError, explain
from minixla.core.shapes import Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import _state, shape_of, weak_type_of
from minixla.engine.float0 import flatten, with_axis
from minixla.engine.random_keys import shapes_of_members
from minixla.numpy.operands import static_int
from minixla.transforms.arguments import checked_function
from minixla.transforms.loop_bodies import (
    carry_places,
    check_structure,
    converted_to,
    fitted,
    stable_body,
)
from minixla.transforms.places import (
    Places,
    argument_places,
    difference,
    leaf_shapes,
    lifted_leaves,
    places,
    structure_places,
)
from minixla.transforms.staging import Staged, reading_all, stage
from minixla.transforms.vmap import vmap
from minixla_ops.control_flow.conditional import Conditional
from minixla_ops.control_flow.loops import While
from minixla_ops.control_flow.scan import scan_all
from minixla_ops.elementwise.binary import max as maximum
from minixla_ops.elementwise.binary import min as minimum
from minixla_ops.elementwise.conversion import convert_element_type


@api_boundary
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
) -> Any:
    """The result of one of two functions (JAX: lax.cond).

    Only that function runs, but for a batch whose members differ in `pred`.

    Args:
        pred: a scalar; a number is true where it is not zero.
        true_fun: a function of the operands; may read other values, traced ones too.
        false_fun: another, whose result is like that of the first.
        operands: pytrees of arrays.

    Raises:
        TransformError: results that differ in structure.
        ShapeError: `pred` is no scalar, or results that differ in shape.
    """
    for function in (true_fun, false_fun):
        checked_function(function, "cond")
    shape = _scalar("cond", "pred", pred)
    if shape.element_type.kind != "pred":
        pred = _state.trace.lift(pred, "cond") != 0
    return _branches("cond", pred, [true_fun, false_fun], operands)


@api_boundary
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """The result of one of several functions (JAX: lax.switch).

    Args:
        index: an integer scalar; it is clamped into the numbers of the branches.
        branches: functions of the operands, whose results are alike.
        operands: pytrees of arrays.

    Raises:
        TransformError: no branches, or results that differ in structure.
        ShapeError: the index is no integer scalar, or results that differ in shape.
    """
    branches = list(branches)
    for function in branches:
        checked_function(function, "switch")
    if not branches:
        raise explain(TransformError, "switch", "there are no branches", advice="Give one or more.")
    shape = _scalar("switch", "index", index)
    if not shape.element_type.is_integer:
        raise explain(
            ShapeError,
            "switch",
            "the index is not an integer",
            [f"index {shape}"],
            "Use cond for a boolean; convert other numbers.",
        )
    if len(branches) == 1:
        return branches[0](*operands)
    lifted = _state.trace.lift(index, "switch")
    last = np.asarray(len(branches) - 1).astype(shape.dtype)
    clamped = minimum(maximum(lifted, np.zeros((), shape.dtype)), last)
    return _branches("switch", convert_element_type(clamped, "s32"), branches, operands)


def _scalar(subject: str, name: str, value: Any) -> Shape:
    shape = shape_of(value, subject)
    if isinstance(shape, Shape) and not shape.rank:
        return shape
    raise explain(
        ShapeError,
        subject,
        f"{name} is not a scalar",
        [f"{name} {shape}"],
        "It chooses for the whole call; use mx.numpy.where to choose element by element.",
    )


def _branches(
    subject: str, choice: Any, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    leaves, tree = flatten(tuple(operands))
    shapes = leaf_shapes(subject, leaves, lambda: argument_places(functions[0], operands))
    weak = [weak_type_of(leaf) for leaf in leaves]
    staged = [stage(function, tree, shapes, weak) for function in functions]
    names = ["true_fun", "false_fun"] if subject == "cond" else None
    _check_alike(subject, staged, names or [f"branch {i}" for i in range(len(staged))])
    types = [_common_type(column) for column in _columns(staged)]
    if any(list(each.graph.output_shapes) != types for each in staged):
        staged = [stage(_converting(function, types), tree, shapes, weak) for function in functions]
    graphs, read = reading_all(staged)
    results = Conditional(tuple(graphs))(choice, *read, *leaves)
    flags = [all(column) for column in zip(*[each.weak for each in staged], strict=True)]
    return staged[0]._replace(weak=flags).results(results)


def _columns(staged: Sequence[Staged]) -> list[list[tuple[Any, bool]]]:
    """For each result its shape and whether it is weakly typed, in each function."""
    rows = [list(zip(each.graph.output_shapes, each.weak, strict=True)) for each in staged]
    return [list(column) for column in zip(*rows, strict=True)]


def _common_type(column: Sequence[tuple[Any, bool]]) -> Any:
    """The shape of a result that is strongly typed in some function, else in the first."""
    return next((shape for shape, is_weak in column if not is_weak), column[0][0])


def _check_alike(subject: str, staged: Sequence[Staged], names: Sequence[str]) -> None:
    first = staged[0]
    for each, name in zip(staged[1:], names[1:], strict=True):
        if each.result_tree != first.result_tree:
            raise explain(
                TransformError,
                subject,
                f"{names[0]} and {name} return other structures",
                [
                    f"{names[0]}: {first.result_tree}",
                    f"{name}: {each.result_tree}",
                    *difference("the result", names[0], first.result_tree, name, each.result_tree),
                ],
                "All branches must return results of one structure.",
            )
    for index, column in enumerate(_columns(staged)):
        wanted = _common_type(column)
        for (shape, is_weak), name in zip(column, names, strict=True):
            fits = shape is wanted or (is_weak and shape.dimensions == wanted.dimensions)
            if not fits:
                found = structure_places("the result", first.result_tree)
                raise explain(
                    ShapeError,
                    subject,
                    f"the branches differ in the shape of {found[index]}",
                    [f"{n}: {s}" for (s, _), n in zip(column, names, strict=True)],
                    f"Convert the result of {name}: all branches give one shape and element type.",
                )


def _converting(function: Callable[..., Any], shapes: Sequence[Any]) -> Callable[..., Any]:
    """The function, its results converted to the element types of `shapes`."""

    def converted(*args: Any) -> Any:
        leaves, tree = flatten(function(*args))
        pairs = zip(leaves, shapes, strict=True)
        return tree_unflatten(tree, [converted_to(leaf, shape) for leaf, shape in pairs])

    return converted


@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """The last value of a loop (JAX: lax.while_loop).

        val = init_val;  while cond_fun(val): val = body_fun(val)

    Unlike JAX's it has a reverse derivative, whose memory does not grow with the number of
    iterations, see `minixla_ops.control_flow.loop_reverse`.

    Args:
        cond_fun: from the value to a scalar boolean; may read other values, traced ones too.
        body_fun: from the value to the next, which is like it.
        init_val: a pytree of arrays.

    Raises:
        TransformError: the structure of the value changes.
        ShapeError: its shapes change, or `cond_fun` gives no boolean scalar.
    """
    checked_function(cond_fun, "while_loop")
    checked_function(body_fun, "while_loop")
    return _while_loop(
        "while_loop", cond_fun, body_fun, init_val, carry_places(body_fun, 0, init_val)
    )


def _while_loop(
    subject: str,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    where: Places,
) -> Any:
    """`while_loop` for a function of the name `subject`; `where` gives the places of the leaves."""
    body, leaves, tree = stable_body(subject, "body_fun", body_fun, init_val, where)
    shapes = [shape_of(leaf) for leaf in leaves]
    test = stage(cond_fun, tree, shapes, body.weak)
    if test.graph.output_shapes != (Shape("pred"),):
        raise explain(
            ShapeError,
            "while_loop",
            "cond_fun does not give one boolean scalar",
            [f"it gives {', '.join([str(s) for s in test.graph.output_shapes]) or 'nothing'}"],
            "Return a comparison of scalars, such as i < 10.",
        )
    graphs, read = reading_all([test, body])
    carried = _returning(graphs[1], len(read))
    results = While(graphs[0], carried)(*read, *leaves)
    return body.results(results[len(read) :])


def _returning(graph: Any, count: int) -> Any:
    """The program that returns its first `count` inputs, too, in front."""
    outputs = [*graph.inputs[:count], *graph.outputs]
    return type(graph)(graph.inputs, graph.instructions, outputs, graph.name)


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """The last value of a counted loop (JAX: lax.fori_loop).

        val = init_val;  for i in range(lower, upper): val = body_fun(i, val)

    Args:
        lower: an integer scalar.
        upper: an integer scalar. Where both are known while tracing, a reverse derivative keeps
            what it needs of every iteration.
        body_fun: from the number and the value to the next value, which is like it.
        init_val: a pytree of arrays.
        unroll: how many iterations at a time XLA is given as straight code; True: all. It takes
            numbers that are known while tracing.

    Raises:
        TransformError, ShapeError: see `while_loop`; bounds that are no integer scalars.
    """
    checked_function(body_fun, "fori_loop")
    for name, bound in (("lower", lower), ("upper", upper)):
        shape = _scalar("fori_loop", name, bound)
        if not shape.element_type.is_integer:
            raise explain(
                ShapeError,
                "fori_loop",
                f"{name} is not an integer",
                [f"{name} {shape}"],
                "Give an integer scalar.",
            )
    size = 1 if unroll is None else _steps_at_a_time("fori_loop", unroll)
    if size is None or size > 1:
        return _unrolled(lower, upper, body_fun, init_val, size)
    dtype = _index_type(lower, upper)
    start, stop = lower, upper
    if not (weak_type_of(lower) and weak_type_of(upper)):
        start, stop = (
            np.asarray(x, dtype) if isinstance(x, int) else convert_element_type(x, dtype)
            for x in (lower, upper)
        )

    def advance(value: Any) -> Any:
        index, limit, inner = value
        following = body_fun(index, inner)
        taken, returned = flatten(inner)[1], flatten(following)[1]
        check_structure("fori_loop", body_fun, 1, taken, returned)
        return index + 1, limit, following

    def where() -> list[str]:
        return ["lower", "upper", *carry_places(body_fun, 1, init_val)()]

    loop = (start, stop, init_val)
    return _while_loop("fori_loop", lambda value: value[0] < value[1], advance, loop, where)[2]


def _index_type(lower: Any, upper: Any) -> Any:
    """The wider of the bounds' types."""
    types = [shape_of(bound).dtype for bound in (lower, upper) if not isinstance(bound, int)]  # type: ignore[union-attr]
    return np.result_type(*(types or [shape_of(0).dtype]))  # type: ignore[union-attr]


def _lifted(subject: str, values: Any) -> Any:
    """A pytree whose leaves are values of the current trace."""
    leaves, tree = flatten(values)
    return tree_unflatten(tree, [_state.trace.lift(leaf, subject) for leaf in leaves])


def _steps_at_a_time(subject: str, unroll: Any) -> int | None:
    """How many steps are straight code: 0 and False mean one, True all, which is None here.

    Raises:
        AttributeValueError: `unroll` is no number of steps.
    """
    if unroll is True:
        return None
    size = static_int(unroll, subject, "unroll")
    if size < 0:
        raise explain(
            AttributeValueError,
            subject,
            "unroll is negative",
            [f"unroll = {unroll}"],
            "Give the number of steps at a time, or True for all.",
        )
    return max(size, 1)


def _unrolled(lower: Any, upper: Any, body_fun: Any, init_val: Any, unroll: int | None) -> Any:
    if not isinstance(lower, int) or not isinstance(upper, int):
        raise explain(
            TransformError,
            "fori_loop",
            "unroll takes bounds that are known while tracing",
            [f"lower = {lower!r}, upper = {upper!r}"],
            "Give Python integers, or leave unroll out.",
        )
    count = max(upper - lower, 0)
    size = count if unroll is None else unroll
    init_val = _lifted("fori_loop", init_val)

    def several(start: Any, value: Any) -> Any:
        for offset in range(size):
            value = body_fun(start + offset, value)
        return value

    whole = count // size if size else 0
    if whole == 1:
        value = several(lower, init_val)
    else:
        value = fori_loop(0, whole, lambda i, v: several(lower + i * size, v), init_val)
    for index in range(lower + whole * size, upper):
        value = body_fun(index, value)
    return value


@api_boundary
def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """The last carry and the stacked results of a function along leading axes (JAX: lax.scan).

        for x in xs: carry, y = f(carry, x)

    Args:
        f: from the carry and one element to the next carry, which is like it, and a result; may
            read other values, traced ones too.
        init: the first carry, a pytree of arrays.
        xs: a pytree of arrays, whose first axes count the steps; or None.
        length: the number of steps, where there are no arrays in `xs`.
        reverse: whether to begin at the end; the results stand where the elements do.
        unroll: how many steps at a time are straight code; True: all.

    Returns:
        The last carry, and the results, one array for each array of a result of `f`.

    Raises:
        TransformError: a carry whose structure changes, `f` that returns no pair, unknown length.
        ShapeError: a carry whose shapes change, arrays of different lengths.
    """
    checked_function(f, "scan")
    elements, xs_tree = flatten(xs)
    elements = lifted_leaves("scan", elements, lambda: places("xs", xs))
    count = _length("scan", xs, elements, xs_tree, length)
    size = _steps_at_a_time("scan", unroll) or count
    if size > 1 and count:
        return _scan_unrolled(f, init, tree_unflatten(xs_tree, elements), count, reverse, size)
    leaves, carry_tree = flatten(init)
    where = carry_places(f, 0, init)
    leaves = lifted_leaves("scan", leaves, where)
    weak = [weak_type_of(leaf) for leaf in leaves]
    _, tree = flatten((init, xs))
    rows = [shape_of(each).without_dimension(0) for each in elements]  # type: ignore[union-attr]
    row_weak = [weak_type_of(each) for each in elements]
    while True:
        shapes = [*[shape_of(leaf) for leaf in leaves], *rows]
        staged = stage(f, tree, shapes, [*weak, *row_weak])
        _check_pair(staged, carry_tree, len(leaves))
        staged, found = fitted("scan", "f", staged, leaves, weak, where, len(leaves))
        if found is None:
            break
        leaves, weak = found
    return _bound_scan(staged, leaves, elements, count, reverse)


def _bound_scan(
    staged: Staged, leaves: Sequence[Any], elements: Sequence[Any], length: int, reverse: bool
) -> Any:
    graph, read, carries = staged.graph, staged.read, len(leaves)
    # The function takes (read, carry, elements); Scan has the elements first, and carries what is
    # read along.
    first = len(read) + carries
    inputs = [*graph.inputs[first:], *graph.inputs[:first]]
    outputs = [*graph.outputs[carries:], *graph.inputs[: len(read)], *graph.outputs[:carries]]
    step = type(graph)(inputs, graph.instructions, outputs, graph.name)
    stacked, carried = scan_all(step, elements, [*read, *leaves], length, is_reverse=reverse)
    carry, ys = staged.results([*carried[len(read) :], *stacked])
    return carry, with_axis(ys, length)


def _length(subject: str, xs: Any, elements: Sequence[Any], tree: Any, length: int | None) -> int:
    """The number of steps over `xs`, whose arrays are `elements` and whose structure is `tree`."""
    shapes = shapes_of_members(tree, [shape_of(each) for each in elements])
    for index, shape in enumerate(shapes):
        if not isinstance(shape, Shape) or not shape.rank:
            raise explain(
                ShapeError,
                subject,
                f"{places('xs', xs)[index]} has no leading axis",
                [f"it is {shape}"],
                "Arrays of xs are scanned along their first axes; let f read other values.",
            )
    sizes = {shape.dimensions[0] for shape in shapes if isinstance(shape, Shape)}
    if length is not None:
        sizes.add(int(length))
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise explain(
            TransformError,
            "scan",
            "the number of steps is unknown",
            ["xs has no arrays", "length = None"],
            "Give length, or arrays to scan along.",
        )
    raise explain(
        ShapeError,
        subject,
        "the arrays of xs differ in length",
        [f"{place}: {shape}" for place, shape in zip(places("xs", xs), shapes, strict=True)]
        + [f"length = {length}"],
        "All first axes must have one size, which is also length, where that is given.",
    )


def _check_pair(staged: Staged, carry_tree: Any, count: int) -> None:
    children = staged.result_tree.children()
    is_pair = len(children) == 2 and staged.result_tree.node_data() is not None
    if not is_pair:
        raise _no_pair(staged.result_tree, carry_tree)
    if children[0] != carry_tree:
        raise explain(
            TransformError,
            "scan",
            "f returns a carry of another structure than it takes",
            [
                f"it returned {staged.result_tree}",
                f"the carry is {carry_tree} of {count} arrays",
                *difference("the carry", "it takes", carry_tree, "it returns", children[0]),
            ],
            "Return a pair (carry, result); the result may be None.",
        )


def _no_pair(returned: Any, carry: Any) -> TransformError:
    return explain(
        TransformError,
        "scan",
        "f does not return the next carry and a result",
        [f"it returned {returned}", f"the carry is {carry}"],
        "Return a pair (carry, result); the result may be None.",
    )


def _scan_unrolled(
    f: Callable[[Any, Any], Any], init: Any, xs: Any, count: int, reverse: bool, size: int
) -> tuple[Any, Any]:
    from minixla.numpy import concatenate, stack

    def step(carry: Any, row: Any) -> Any:
        pair = f(carry, row)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _no_pair(tree_structure(pair), tree_structure(carry))
        return pair

    def several(carry: Any, rows: Any, number: int) -> tuple[Any, Any]:
        results: list[Any] = [None] * number
        for index in reversed(range(number)) if reverse else range(number):
            carry, results[index] = step(carry, tree_map(lambda row, i=index: row[i], rows))
        return carry, _combined(stack, results)

    whole, rest = count // size, count % size
    # In reverse the steps that do not fill a block are the first ones of xs, done last.
    cut = rest if reverse else whole * size
    main = tree_map(lambda x: x[cut:] if reverse else x[:cut], xs)
    odd = tree_map(lambda x: x[:cut] if reverse else x[cut:], xs)
    blocks = tree_map(lambda x: x.reshape((whole, size, *x.shape[1:])), main)
    carry, ys = scan(lambda c, b: several(c, b, size), init, blocks, whole, reverse)
    ys = tree_map(lambda y: y.reshape((whole * size, *y.shape[2:])), ys)
    if not rest:
        return carry, ys
    carry, more = several(carry, odd, rest)
    return carry, _combined(concatenate, [more, ys] if reverse else [ys, more])


def _combined(combine: Callable[[Any], Any], values: Sequence[Any]) -> Any:
    """Pytrees that are alike as one, the arrays of each place put together by `combine`."""
    taken = [flatten(each) for each in values]
    columns = zip(*[leaves for leaves, _ in taken], strict=True)
    return tree_unflatten(taken[0][1], [combine(column) for column in columns])


@api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """The results of a function for each element along leading axes, one by one (JAX: lax.map).

    Args:
        f: from one element to a result.
        xs: a pytree of arrays, whose first axes are of one size.
        batch_size: how many elements to take at a time, by `vmap`; default: one.

    Returns:
        The results, one array for each array of a result of `f`.

    Raises:
        ShapeError: arrays of different lengths.
        AttributeValueError: `batch_size` is no positive integer.
    """
    checked_function(f, "map")
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    size = static_int(batch_size, "map", "batch_size")
    if size < 1:
        raise explain(
            AttributeValueError,
            "map",
            "batch_size is less than 1",
            [f"batch_size = {batch_size}"],
            "Give the number of elements to take at a time, or leave it out.",
        )
    from minixla.numpy import concatenate

    lifted = _lifted("map", xs)
    count = _length("map", xs, *flatten(lifted), None)
    whole = count // size
    cut = whole * size
    blocks = tree_map(lambda x: x[:cut].reshape((whole, size, *x.shape[1:])), lifted)
    ys = scan(lambda _, block: ((), vmap(f)(block)), (), blocks)[1]
    ys = tree_map(lambda y: y.reshape((cut, *y.shape[2:])), ys)
    if cut == count:
        return ys
    rest = vmap(f)(tree_map(lambda x: x[cut:], lifted))
    return _combined(concatenate, [ys, rest])
