"""cond, switch, while_loop and fori_loop: branches and loops in programs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from jax.core import Tracer as JaxTracer
from jax.tree_util import tree_map, tree_unflatten

import minixla_ops as ops
from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import (
    AttributeValueError,
    ConcretizationError,
    ShapeError,
    check_arguments,
    explain,
)
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, _state, evaluate_graph, shape_of, weak_type_of
from minixla.engine.float0 import flatten, places, structure_places
from minixla.engine.program import is_disabled
from minixla.engine.structures import PyTreeDef
from minixla.numpy.operands import static_int
from minixla.transforms.arguments import Arguments, Signature, checked_function, misfit
from minixla.transforms.pytree_paths import Places, lifted_leaves, other_structure, parameter_names
from minixla.transforms.staging import Staged, reading_all, stage
from minixla.transforms.typed_functions import Function, Result
from minixla.typing import Array, ArrayLike, PyTree
from minixla_ops.control_flow.conditional import Conditional
from minixla_ops.control_flow.loops import While
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.runs_programs import program

#: The default of `operand`; None would be a valid operand.
_ABSENT: Any = object()


@api_boundary
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Result],
    false_fun: Callable[..., Result],
    *operands: PyTree,
    operand: PyTree = _ABSENT,
) -> Result:
    """Call one of two functions, depending on `pred` (JAX: lax.cond).

    Only that function runs, unless the elements of a batch differ in `pred`.

    Args:
        pred: a scalar; a number is true if it is nonzero.
        true_fun: a function of the operands; it may read other values, including traced ones.
        false_fun: another function, whose result has the same structure and types.
        operands: pytrees of arrays.
        operand: a single operand, instead of `operands`.

    Returns:
        The result of the chosen function.

    Raises:
        TransformError: the results differ in structure, or both `operands` and `operand` are
            passed.
        ShapeError: `pred` is not a scalar, or the results differ in shape.

    Example:
        >>> f = mx.jit(lambda x: mx.cond(x > 0, lambda: x, lambda: -2 * x))
        >>> f(3.0), f(-3.0)
        (Array(3., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    operands = _all_operands("cond", operands, operand)
    shape = _scalar("cond", "pred", pred)
    if runs_in_python(pred):
        return (true_fun if pred else false_fun)(*operands)
    if shape.element_type.kind != "pred":
        pred = _state.trace.lift(pred, "cond") != 0
    return choose_branch("cond", pred, {"true_fun": true_fun, "false_fun": false_fun}, operands)


@api_boundary
def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., Result]],
    *operands: PyTree,
    operand: PyTree = _ABSENT,
) -> Result:
    """Call one of several functions, depending on `index` (JAX: lax.switch).

    Args:
        index: an integer scalar; it is clamped to the range of the branches.
        branches: functions of the operands, whose results have the same structure and types.
        operands: pytrees of arrays.
        operand: a single operand, instead of `operands`.

    Returns:
        The result of the chosen function.

    Raises:
        TransformError: `branches` is empty, the results differ in structure, or both `operands` and
            `operand` are passed.
        ShapeError: the index is not an integer scalar, or the results differ in shape.

    Example:
        >>> mx.switch(1, [lambda x: x, lambda x: -x, lambda x: x * x], 3.0)
        Array(-3., dtype=float32, weak_type=True)
    """
    operands = _all_operands("switch", operands, operand)
    is_listed = isinstance(branches, Iterable)
    check_arguments("switch", branches=(branches, is_listed, "a sequence of functions"))
    branches = [checked_function(branch, "switch") for branch in branches]
    if not branches:
        raise misfit("switch", "at least one branch is required", advice="Pass a branch.")
    shape = _scalar("switch", "the index", index, "Use cond for a boolean; convert other numbers.")
    if len(branches) == 1:
        return branches[0](*operands)
    if runs_in_python(index):
        concrete: Any = index
        return branches[min(max(int(concrete), 0), len(branches) - 1)](*operands)
    first, last = (np.asarray(n).astype(shape.dtype) for n in (0, len(branches) - 1))
    clamped = ops.min(ops.max(_state.trace.lift(index, "switch"), first), last)
    numbered = {f"branch {number}": branch for number, branch in enumerate(branches)}
    return choose_branch("switch", ops.convert_element_type(clamped, "s32"), numbered, operands)


def _all_operands(
    subject: str, operands: tuple[PyTree, ...], operand: PyTree
) -> tuple[PyTree, ...]:
    """Return the operands of a branch; as in JAX, a single operand may be passed by keyword."""
    if operand is _ABSENT:
        return operands
    if operands:
        problem = "operands must be passed by position or as operand=, not both"
        details = [f"{len(operands)} operands by position, and operand={operand!r:.200}"]
        raise misfit(subject, problem, details, "Pass all operands by position.")
    return (operand,)


def runs_in_python(*values: ArrayLike) -> bool:
    """Return whether loops and branches run in Python: under `disable_jit`, if values are known."""
    if not is_disabled():
        return False
    return all(not isinstance(x, JaxTracer) or x.to_concrete_value() is not None for x in values)


def _scalar(subject: str, name: str, value: ArrayLike, if_no_integer: str = "") -> Shape:
    """Return the shape of a scalar; with advice `if_no_integer`, it must be an integer."""
    shape = shape_of(value, subject)
    problem = f"{name} is not a scalar"
    advice = "It chooses for the whole call; use mx.numpy.where to choose elements."
    if isinstance(shape, Shape) and not shape.rank:
        if shape.element_type.is_integer or not if_no_integer:
            return shape
        problem, advice = f"{name} is not an integer", if_no_integer
    raise explain(ShapeError, subject, problem, [f"{name} {shape}"], advice)


def choose_branch(
    subject: str,
    choice: ArrayLike,
    functions: dict[str, Function],
    operands: Sequence[PyTree],
    conditional: Callable[..., Conditional] = Conditional,
) -> PyTree:
    """Return the results of one of several functions, by a `conditional` of their programs."""
    calls = [Arguments(subject, function, operands) for function in functions.values()]
    signature = calls[0].signature()
    staged = {name: stage(function, signature) for name, function in functions.items()}
    shapes, weak = _common_types(subject, staged)
    graphs, read = reading_all([*staged.values()])
    programs = tuple([_converted(graph, shapes) for graph in graphs])
    results = conditional(branches=programs)(choice, *read, *calls[0].leaves)
    return next(iter(staged.values()))._replace(weak=weak).results(results)


def _common_types(subject: str, staged: dict[str, Staged]) -> tuple[list[AnyShape], list[bool]]:
    """Return each result's shape, preferably a strongly typed one, and whether all are weak."""
    (first_name, first), *others = staged.items()
    for name, branch in others:
        if branch.result_tree != first.result_tree:
            problem = f"{first_name} and {name} must return the same structure"
            both = (first_name, first.result_tree), (name, branch.result_tree)
            advice = "All branches must return results with the same structure."
            raise other_structure(subject, problem, "the result", *both, advice)
    shapes, weak = [], []
    rows = [zip(branch.graph.output_shapes, branch.weak, strict=True) for branch in staged.values()]
    for index, column in enumerate(zip(*rows, strict=True)):
        wanted = next((shape for shape, is_weak in column if not is_weak), column[0][0])
        shapes.append(wanted)
        weak.append(all(is_weak and shape is wanted for shape, is_weak in column))
        for (shape, is_weak), name in zip(column, staged, strict=True):
            if shape is not wanted and not (is_weak and shape.dimensions == wanted.dimensions):
                place = structure_places("the result", first.result_tree)[index]
                problem = f"the branches must return the same shape for {place}"
                details = [f"{n}: {s}" for (s, _), n in zip(column, staged, strict=True)]
                advice = f"All must return the same shape and type: convert the result of {name}."
                raise explain(ShapeError, subject, problem, details, advice)
    return shapes, weak


def _converted(graph: Graph, shapes: Sequence[AnyShape]) -> Graph:
    if list(graph.output_shapes) == shapes:
        return graph

    def converted(*operands: Array) -> list[Array]:
        return list(map(converted_to, evaluate_graph(graph, operands), shapes))

    return program(converted, graph.input_shapes, graph.name)


def carry_places(fun: Function, number: int, init: PyTree) -> Places:
    """Return the paths of a loop value's leaves, starting with the body's parameter name."""
    return lambda: places(parameter_names(fun, number + 1)[number], init)


def stable_body(
    subject: str,
    body: Function,
    tree: PyTreeDef,
    leaves: Iterable[Array],
    where: Places,
    check: Callable[[PyTreeDef], None],
    rows: Sequence[Array] = (),
) -> tuple[Staged, list[Array]]:
    """Stage the body of a loop; also return the first value in the final types.

    Weakly typed leaves take the types that the body returns. `tree` is the structure of the body's
    arguments: the loop value and each step's input, elements of `rows`. The loop value has initial
    `leaves` with paths `where`. The next value is first in the result, whose structure `check`
    checks.
    """
    leaves, weak = list(leaves), list(map(weak_type_of, leaves))
    shapes_of_rows = [array_shape(row).without_dimension(0) for row in rows]
    weak_rows = list(map(weak_type_of, rows))
    while True:
        shapes = [*map(shape_of, leaves), *shapes_of_rows]
        staged = stage(body, Signature(tree, shapes, [*weak, *weak_rows]))
        check(staged.result_tree)
        before = list(weak)
        given = zip(leaves, weak, staged.graph.output_shapes, staged.weak, strict=False)
        for index, (leaf, is_weak, shape, stays_weak) in enumerate(list(given)):
            wanted_shape: Any = shape_of(leaf)
            weak[index] = is_weak and stays_weak and shape is wanted_shape
            is_alike = isinstance(shape, Shape) and shape.dimensions == wanted_shape.dimensions
            if shape is not wanted_shape and not (is_weak and is_alike):
                name = "f" if subject == "scan" else "body_fun"
                problem = f"{name} must return {where()[index]} with the shape that it takes"
                details = [f"it takes {wanted_shape}", f"it returns {shape}"]
                advice = (
                    "Its shape and element type must not change: convert it in the loop, or before."
                )
                raise explain(ShapeError, subject, problem, details, advice)
            leaves[index] = converted_to(leaf, shape)
        if weak == before:
            return staged, leaves


def check_structure(
    subject: str, body: Function, number: int, taken: PyTreeDef, returned: PyTreeDef
) -> None:
    """Raise TransformError if a body's result differs in structure from its argument `number`."""
    if returned == taken:
        return
    problem = "body_fun must return the structure that it takes"
    both = ("it takes", taken), ("it returns", returned)
    name, advice = (
        parameter_names(body, number + 1)[number],
        "The structure of a loop value must not change.",
    )
    raise other_structure(subject, problem, name, *both, advice)


def converted_to(value: Array, shape: AnyShape) -> Array:
    """Convert a value to the element type of `shape`."""
    if shape_of(value) is shape:
        return value
    return ops.convert_element_type(_state.trace.lift(value), array_shape(shape).element_type)


def lifted(subject: str, name: str, value: PyTree) -> tuple[list[Array], PyTreeDef]:
    """Return the leaves of the pytree `name` as values of the current trace, and its structure."""
    leaves, tree = flatten(value)
    return lifted_leaves(subject, leaves, lambda: places(name, value)), tree


def steps_at_a_time(subject: str, unroll: int) -> int | None:
    """Return the number of steps to unroll: 0 and False mean one, True all (returned as None)."""
    if unroll is True:
        return None
    size = static_int(unroll, subject, "unroll")
    if size < 0:
        problem = "unroll must not be negative"
        advice = "Pass the number of steps at a time, or True for all."
        raise explain(AttributeValueError, subject, problem, [f"unroll = {unroll}"], advice)
    return max(size, 1)


@api_boundary
def while_loop(
    cond_fun: Callable[[PyTree], ArrayLike], body_fun: Callable[[PyTree], Result], init_val: PyTree
) -> Result:
    """Run a loop and return the last value (JAX: lax.while_loop).

        val = init_val;  while cond_fun(val): val = body_fun(val)

    Unlike JAX's, it has a reverse derivative. Its memory does not grow with the number of
    iterations; see `minixla_ops.control_flow.loop_blocks`.

    Args:
        cond_fun: from the value to a boolean scalar; it may read other values, including traced
            ones.
        body_fun: from the value to the next value, with the same structure and types.
        init_val: a pytree of arrays.

    Returns:
        The last value, a pytree like `init_val`.

    Raises:
        TransformError: the structure of the value changes.
        ShapeError: its shapes change, or `cond_fun` does not return a boolean scalar.

    Example:
        >>> mx.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
        Array(192, dtype=int32, weak_type=True)
    """
    checked_function(cond_fun, "while_loop")
    checked_function(body_fun, "while_loop")
    where = carry_places(body_fun, 0, init_val)
    return _while_loop("while_loop", cond_fun, body_fun, init_val, where)


def _while_loop(
    subject: str, cond_fun: Function, body_fun: Function, init_val: PyTree, where: Places
) -> PyTree:
    """Run `while_loop` for a function named `subject`; `where` returns the paths of the leaves."""
    if runs_in_python():
        with suppress(ConcretizationError):  # batch elements may stop at different steps
            value = tree_map(_state.trace.lift, init_val)
            while cond_fun(value):
                value = tree_map(_state.trace.lift, body_fun(value))
            return value
    leaves, tree = flatten((init_val,))
    check = partial(check_structure, subject, body_fun, 0, tree.children()[0])
    lifted = lifted_leaves(subject, leaves, where)
    body, leaves = stable_body(subject, body_fun, tree, lifted, where, check)
    test = stage(cond_fun, Signature(tree, list(map(shape_of, leaves)), body.weak))
    if test.graph.output_shapes != (Shape("pred"),):
        problem = "cond_fun must return one boolean scalar"
        details = [
            f"it returns {', '.join([str(s) for s in test.graph.output_shapes]) or 'nothing'}"
        ]
        advice = "Return a comparison of scalars, such as i < 10."
        raise explain(ShapeError, "while_loop", problem, details, advice)
    graphs, read = reading_all([test, body])
    step, count = graphs[1], len(read)
    # Pass the captured values through the loop.
    outputs = [*step.inputs[:count], *step.outputs]
    carried = Graph(step.inputs, step.instructions, outputs, step.name)
    return body.results(While(graphs[0], carried)(*read, *leaves)[count:])


@api_boundary
@checks_kinds
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, PyTree], Result],
    init_val: PyTree,
    *,
    unroll: int | bool | None = None,
) -> Result:
    """Run a counted loop and return the last value (JAX: lax.fori_loop).

        val = init_val;  for i in range(lower, upper): val = body_fun(i, val)

    Args:
        lower: an integer scalar.
        upper: an integer scalar. If both are known while tracing, a reverse derivative stores
            residuals of every iteration.
        body_fun: from the index and the value to the next value, with the same structure and types.
        init_val: a pytree of arrays.
        unroll: the number of iterations that are unrolled for XLA; True: all. It requires bounds
            that are known while tracing.

    Returns:
        The last value, a pytree like `init_val`.

    Raises:
        TransformError, ShapeError: see `while_loop`; or a bound is not an integer scalar.

    Example:
        >>> mx.fori_loop(1, 5, lambda i, product: product * i, 1)
        Array(24, dtype=int32, weak_type=True)
    """
    checked_function(body_fun, "fori_loop")
    for name, bound in (("lower", lower), ("upper", upper)):
        _scalar("fori_loop", name, bound, "Pass an integer scalar.")
    size = 1 if unroll is None else steps_at_a_time("fori_loop", unroll)
    if size is None or size > 1:
        return _unrolled(lower, upper, body_fun, init_val, size)
    bounds: list[Any] = [lower, upper]
    if not any(isinstance(bound, (Tracer, JaxTracer)) for bound in bounds):
        # Known bounds become Python numbers, as in JAX: the index is weakly typed.
        numbers = list(map(int, bounds))
        bounds = numbers if all(number.bit_length() < 32 for number in numbers) else bounds
    types = [array_shape(bound).dtype for bound in bounds if not isinstance(bound, int)]
    if types:  # Python numbers have no dtype
        dtype = np.result_type(*types)

        def of_type(bound: ArrayLike) -> ArrayLike:
            if array_shape(bound).dtype == dtype:
                return bound
            is_number = isinstance(bound, int)
            return np.asarray(bound, dtype) if is_number else ops.convert_element_type(bound, dtype)

        bounds = list(map(of_type, bounds))
    start, stop = bounds

    def advance(value: PyTree) -> PyTree:
        index, limit, inner = value
        following = body_fun(index, inner)
        check_structure("fori_loop", body_fun, 1, flatten(inner)[1], flatten(following)[1])
        return index + 1, limit, following

    loop, inner = (start, stop, init_val), carry_places(body_fun, 1, init_val)
    functions = lambda value: value[0] < value[1], advance
    return _while_loop("fori_loop", *functions, loop, lambda: ["lower", "upper", *inner()])[2]


def _unrolled(
    lower: ArrayLike, upper: ArrayLike, body_fun: Function, init_val: PyTree, unroll: int | None
) -> PyTree:
    if not isinstance(lower, int) or not isinstance(upper, int):
        problem = "unroll requires bounds that are known while tracing"
        details = [f"lower = {lower!r}, upper = {upper!r}"]
        raise misfit("fori_loop", problem, details, "Pass Python integers, or omit unroll.")
    leaves, tree = lifted("fori_loop", "init_val", init_val)
    count, value = max(upper - lower, 0), tree_unflatten(tree, leaves)
    size = count if unroll is None else unroll

    def several(start: ArrayLike, value: PyTree, number: int) -> PyTree:
        for offset in range(number):
            value = body_fun(start + offset, value)
        return value

    whole = count // size if 0 < 2 * size <= count else 0  # a loop of one iteration is not a loop
    if whole or not count:
        value = fori_loop(0, whole, lambda i, v: several(lower + i * size, v, size), value)
    return several(lower + whole * size, value, count - whole * size)
