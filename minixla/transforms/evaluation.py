"""`reference` evaluates a function in NumPy; `make_graph` returns the graph of a function."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, overload

import jax.core
import numpy as np

from minixla.core.annotations import Paths
from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import ConcretizationError, ShapeError, explain, too_large
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape, TupleValue, shape_of_data
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, _state, default_trace, shape_of, under
from minixla.engine import eval_context, random_keys
from minixla.engine.float0 import structure_places
from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer
from minixla.transforms.arguments import Arguments, check_marks, in_place_of, misfit
from minixla.transforms.staging import Staged, traced
from minixla.transforms.typed_functions import Function, Numbers, Parameters
from minixla.transforms.watching import watched
from minixla.typing import ArrayLike, PyTree


@checks_kinds
def reference(
    fun: Callable[Parameters, PyTree], precision: Literal["float64"] | None = None
) -> Callable[Parameters, PyTree]:
    """Evaluate `fun` in NumPy by the operations' reference rules, without JAX.

    It composes with transformations inside it, `mx.reference(mx.grad(f))`: it must be outermost.

    Args:
        fun: a function of pytrees of arrays.
        precision: None computes in the declared element types. `"float64"` computes floats and
            complex numbers in f64, as a baseline for errors.

    Returns:
        A function of the same arguments that returns NumPy arrays; other leaves are unchanged.

    Raises:
        ArgumentTypeError: `precision` is invalid.
        ConcretizationError: from the function, if it is called inside another transformation.

    Example:
        >>> mx.reference(mx.grad(lambda x: x * x))(np.float32(3))
        array(6., dtype=float32)
    """
    function: Function = fun

    @in_place_of(fun, "reference")
    def evaluated(*args: PyTree, **kwargs: PyTree) -> PyTree:
        trace = ReferenceTrace(_state.trace, precision)
        try:
            with under(watched(trace)):
                leaves, tree = random_keys.flatten((args, kwargs))
                values = jax.tree.unflatten(tree, [_lift(trace, leaf) for leaf in leaves])
                results, out_tree = random_keys.flatten(function(*values[0], **values[1]))
                numbers = [_lower(trace, result) for result in results]
            return jax.tree.unflatten(out_tree, numbers)
        finally:
            trace.alive = False

    return evaluated


def _lift(trace: ReferenceTrace, leaf: ArrayLike) -> PyTree:
    if isinstance(leaf, ReferenceTracer):
        leaf = leaf.data
    if isinstance(leaf, (Tracer, jax.core.Tracer)):
        problem = "an argument is a traced value, but only concrete values can be evaluated"
        advice = "Make mx.reference the outermost: mx.reference(mx.grad(f)), not "
        advice += "mx.grad(mx.reference(f)); inside jit, grad or vmap omit it."
        details = [f"the argument is {leaf!r}"]
        raise explain(ConcretizationError, "reference", problem, details, advice)
    # Values that are not arrays (a string, a flag object) are passed unchanged.
    return leaf if shape_of_data(leaf) is None else trace.lift(leaf)


def _lower(trace: ReferenceTrace, leaf: ArrayLike) -> PyTree:
    if isinstance(leaf, TupleValue):
        return TupleValue([_lower(trace, element) for element in leaf.elements])
    if shape_of_data(leaf) is None and not isinstance(leaf, Tracer):
        return leaf  # not an array: a string, or float0 zeros, the tangents of integers
    lifted = trace.lift(leaf, "reference")
    try:
        return np.array(lifted.data)
    except MemoryError:
        shape = shape_of(lifted)
        raise too_large("reference", f"the result {shape} does not fit in memory") from None


@overload
def make_graph(
    fun: Function, static_argnums: Numbers = (), *, return_shape: Literal[False] = False
) -> Callable[..., Graph]: ...
@overload
def make_graph(
    fun: Function, static_argnums: Numbers = (), *, return_shape: bool
) -> Callable[..., tuple[Graph, PyTree]]: ...
@checks_kinds
def make_graph(
    fun: Function, static_argnums: Numbers = (), *, return_shape: bool = False
) -> Function:
    """Return a function that returns the graph of `fun` for its arguments (JAX: make_jaxpr).

    Args:
        fun: a function of pytrees of arrays.
        static_argnums: positions of arguments that are passed unchanged.
        return_shape: whether to return the pair of the graph and a tree like the result, with a
            `jax.ShapeDtypeStruct` for each array.

    Returns:
        A function of the same arguments; arrays may be replaced by values with `shape` and `dtype`.
        The graph's inputs and outputs are the leaves of arguments and results.

    Raises:
        AttributeValueError: `fun` has no argument at a position in `static_argnums`.
        ConcretizationError, TransformError: when called; see `jit`.

    Example:
        >>> graph = mx.make_graph(lambda x: x * x + 1)(np.float32(2))
        >>> [step.op.name for step in graph.instructions]
        ['Mul', 'Constant', 'Add']
    """
    check_marks("make_graph", fun, static_argnums=static_argnums)

    @in_place_of(fun, "make_graph")
    def staged_graph(*args: PyTree, **kwargs: PyTree) -> PyTree:
        staged = closed(Arguments.besides("make_graph", fun, args, kwargs, static_argnums))
        if not return_shape:
            return staged.graph
        return staged.graph, _described("make_graph", staged)

    return staged_graph


@api_boundary
def eval_shape(fun: Function, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """Trace a function without computing it, and return the result's shapes (JAX: eval_shape).

    Args:
        fun: a function of pytrees of arrays.
        args: its arguments; arrays may be replaced by values with `shape` and `dtype`, such as
            `mx.ShapeDtypeStruct`.
        kwargs: keyword arguments.

    Returns:
        A tree like the result with a `ShapeDtypeStruct` for each array: shape, dtype, weak_type.

    Raises:
        ShapeError: a result is not an array.

    Example:
        >>> mx.eval_shape(lambda x: x @ x.T, np.ones((2, 3), np.float32))
        ShapeDtypeStruct(shape=(2, 2), dtype=float32)
    """
    arguments = Arguments("eval_shape", fun, args, kwargs)
    return _described("eval_shape", traced(arguments.apply, arguments.signature(), arguments.name))


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Evaluate computations without traced values immediately in a `with` block.

    (JAX: ensure_compile_time_eval.) Elsewhere in a traced function, they become part of the
    program.

    Returns:
        A context manager.

    Example:
        >>> @mx.jit
        ... def f(x):
        ...     with mx.ensure_compile_time_eval():
        ...         size = int(mx.numpy.arange(4).sum())
        ...     return x * size
        >>> f(1.0)
        Array(6., dtype=float32, weak_type=True)
    """
    with eval_context(), under(default_trace()):
        yield


def closed(arguments: Arguments) -> Staged:
    """Trace a function for arguments; it must not read other traced values."""
    staged = traced(arguments.apply, arguments.signature(), arguments.name, open_inputs=True)
    paths = Paths(arguments.paths(), structure_places("result", staged.result_tree))
    staged = staged._replace(graph=staged.graph.with_paths(paths))
    if staged.read:
        problem = "the function reads traced values of an enclosing function"
        advice = "A graph is closed; pass the values as arguments."
        raise misfit("make_graph", problem, [repr(tracer) for tracer in staged.read], advice)
    return staged


def graph_of(
    subject: str,
    fun: Function,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree] | None = None,
) -> Graph:
    """Return the graph of a function for arguments; errors name the calling tool, `subject`."""
    return closed(Arguments(subject, fun, args, kwargs or {})).graph


def _described(subject: str, staged: Staged) -> PyTree:
    """Return a tree like a function's result, with a ShapeDtypeStruct for each array."""

    def description(shape: AnyShape, weak: bool) -> jax.ShapeDtypeStruct:
        if isinstance(shape, Shape):
            return jax.ShapeDtypeStruct(shape.dimensions, shape.dtype, weak_type=weak)
        problem = "results must be arrays"
        advice = "Extract elements of a tuple with get_tuple_element."
        raise explain(ShapeError, subject, problem, [f"result {shape}"], advice)

    described = map(description, staged.graph.output_shapes, staged.weak)
    return jax.tree.unflatten(staged.result_tree, described)
