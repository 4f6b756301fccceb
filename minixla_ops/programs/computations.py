"""The scalar programs that reductions, windows, scatters and collectives apply."""

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import minixla_ops as ops
from minixla.core import REGISTRY, ElementType, Operation
from minixla.core.derived import batched_graph, vjp_graphs
from minixla.core.errors import ShapeError, explain
from minixla.core.graph import Graph, remembered
from minixla.core.shapes import AnyShape, Shape, ShapeList
from minixla.core.symbolic_zeros import call_vjp_graphs
from minixla.core.tracing import GraphTracer, Tracer, closed_graph, evaluate_graph
from minixla.typing import Array
from minixla_ops.helpers.shorthand import Values, array_shape, splat

#: A computation argument: a program of scalars, or a function to trace.
Computation = Graph | Callable[..., object]

#: Traced builders of the operation set, by function and shapes: builders never change.
_TRACED: dict[tuple[Callable[..., object], tuple[AnyShape, ...]], Graph] = {}


def computation_of(computation: Computation, shapes: ShapeList, subject: str) -> Graph:
    """Return the Graph of a computation, tracing it if it is a function."""
    if isinstance(computation, Graph):
        return computation
    key = (computation, tuple(shapes))
    try:
        graph = _TRACED.get(key)
    except TypeError:  # a callable object that cannot be hashed
        graph = None
    if graph is None:
        if not callable(computation):
            problem = f"the computation is of type {type(computation).__name__}"
            advice = "Pass a Graph or a function of scalars, such as minixla_ops.add."
            raise explain(ShapeError, subject, problem, [repr(computation)[:200]], advice)
        _check_arity(computation, len(shapes), subject)
        name = getattr(computation, "__name__", "computation")
        graph = closed_graph(computation, shapes, subject, name).pruned()
        module = getattr(computation, "__module__", None) or ""
        is_own = module.partition(".")[0] in ("minixla_ops", "minixla")
        if is_own and getattr(sys.modules.get(module), name, None) is computation:  # a builder
            for instruction in graph.instructions:
                instruction.source = None  # the graph is shared by all callers
            _TRACED[key] = graph
    return graph


def _check_arity(computation: Callable[..., object], count: int, subject: str) -> None:
    try:
        signature = inspect.signature(computation)
    except (TypeError, ValueError):  # the function is not a Python function
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        name = getattr(computation, "__name__", repr(computation))
        problem = f"the computation {name} does not take {count} arguments"
        details = [f"{name}{signature}: {error}"]
        advice = f"Pass a function of {count} scalars."
        raise explain(ShapeError, subject, problem, details, advice) from None


def program_of(
    operation: Operation, computation: Graph, shapes: ShapeList, function: Callable[..., object]
) -> Graph:
    """Trace a function of an operation to a program, cached with its computation."""
    subject = operation.builder_name
    traced = function, shapes, subject, f"{subject}_{computation.name}"
    return computation.remembered((operation, shapes), closed_graph, *traced).pruned()


def pulled_program(
    program: Graph,
    operands: Sequence[Array],
    cotangents: Sequence[Array | None],
    active: Iterable[bool],
) -> Sequence[Any]:
    """Return cotangents of the operands marked in `active`, from the results' cotangents."""
    _, pullback = call_vjp_graphs(vjp_graphs(program, tuple(active)), operands)
    return pullback(
        {i: cotangent for i, cotangent in enumerate(cotangents) if cotangent is not None}
    )


class Monoid(NamedTuple):
    """An associative and commutative operation of two scalars that has an identity."""

    ufunc: np.ufunc
    identity: Callable[[np.dtype], np.ndarray]  # from a dtype
    of_pred: str  # the equivalent monoid for pred


#: Monoids by the name that `monoid_of` returns: the operation's name in lower case.
MONOIDS = {
    "add": Monoid(np.add, lambda dtype: np.zeros((), dtype), "or"),
    "mul": Monoid(np.multiply, lambda dtype: np.ones((), dtype), "and"),
    "max": Monoid(np.maximum, lambda dtype: extreme_of(dtype, lowest=True), "or"),
    "min": Monoid(np.minimum, lambda dtype: extreme_of(dtype, lowest=False), "and"),
    # All bits are set.
    "and": Monoid(np.bitwise_and, lambda dtype: np.array(-1).astype(dtype), "and"),
    "or": Monoid(np.bitwise_or, lambda dtype: np.zeros((), dtype), "or"),
    "xor": Monoid(np.bitwise_xor, lambda dtype: np.zeros((), dtype), "xor"),
}


@remembered
def monoid_of(computation: Graph) -> str | None:
    """Return the name of the monoid in `MONOIDS` that the computation is, else None."""
    instructions = computation.pruned().instructions
    if len(instructions) != 1 or len(computation.inputs) != 2:
        return None
    (only,) = instructions
    both = only.operands, only.operands[::-1]
    if list(computation.outputs) != list(only.results) or computation.inputs not in both:
        return None
    name, shape = only.op.name.lower(), computation.outputs[0].shape
    kind = shape.element_type.kind if isinstance(shape, Shape) else ""
    if name not in MONOIDS or only.op.name != name.capitalize():
        return None
    if kind == "complex" and name in ("max", "min"):
        return None  # they compare lexicographically, unlike NumPy's ufuncs
    return MONOIDS[name].of_pred if kind == "pred" else name


def identity_of(monoid: str, dtype: np.dtype) -> np.ndarray:
    """Return the identity of a monoid in an element type, as a NumPy scalar array."""
    return MONOIDS[monoid].identity(dtype)


def padding_of(monoid: str, dtype: np.dtype) -> np.ndarray:
    """Return an identity that also preserves -0, as a NumPy scalar array."""
    identity = identity_of(monoid, dtype)
    return -identity if monoid == "add" else identity


@cache
def extreme_of(dtype: np.dtype, lowest: bool) -> np.ndarray:
    """Return the lowest or highest value of an element type, infinite if it has infinities."""
    if dtype == np.bool_:
        return np.array(not lowest)
    limits = ml_dtypes.iinfo(dtype) if "int" in dtype.name else ml_dtypes.finfo(dtype)
    finite = np.asarray(limits.min if lowest else limits.max).astype(dtype)
    if "int" in dtype.name:
        return finite
    with np.errstate(all="ignore"):
        infinite = np.asarray(-np.inf if lowest else np.inf).astype(dtype)
    # Types without infinities saturate or return NaN.
    return infinite if np.isinf(infinite) else finite


def neutral_element(monoid: str, kind: ElementType) -> np.ndarray:
    """Return the identity of a monoid in an element type, as a scalar constant for traces."""
    if monoid in ("max", "min") and kind.is_complex:
        # Compare real parts first, as XLA's maximum of complex numbers does.
        extreme = math.inf if monoid == "min" else -math.inf
        return splat(complex(extreme, extreme), Shape(kind))
    return splat(identity_of(monoid, kind.dtype).item(), Shape(kind))


def padding_element(computation: Graph, kind: ElementType) -> np.ndarray | None:
    """Return a scalar constant that changes no value, not even -0, or None."""
    monoid = monoid_of(computation)
    if monoid is None:
        return None
    padding = padding_of(monoid, kind.dtype)
    # It is NaN if the type has no zero.
    return splat(padding.item(), Shape(kind)) if padding == padding else None


def is_identity(monoid: str, value: object) -> bool:
    """Return whether a scalar is known, while tracing, to be the identity of a monoid."""
    if isinstance(value, Tracer):
        literal = value._value.literal if type(value) is GraphTracer else None
        value = None if literal is None else literal.array
    try:
        number = np.asarray(value)
    except TypeError:  # an array that JAX is tracing
        return False
    return value is not None and bool(number == identity_of(monoid, number.dtype))


def short_form(computation: Graph) -> str | None:
    """Return e.g. `stablehlo.add` if the computation is one operation on its inputs, in order."""
    if monoid_of(computation) is None:
        return None
    (only,) = computation.pruned().instructions
    in_order = list(map(id, only.operands)) == list(map(id, computation.inputs))
    return f"stablehlo.{only.op.stablehlo_name}" if in_order else None


def check_computation(
    operation: Operation, label: str, name: str, graph: Graph, inputs: ShapeList, outputs: ShapeList
) -> None:
    """Raise an error for check `label` if a computation's inputs or outputs have other shapes."""
    if graph.input_shapes == tuple(inputs) and graph.output_shapes == tuple(outputs):
        return
    every = graph.input_shapes, graph.output_shapes, inputs, outputs
    taken, returned, *wanted = (f"({', '.join(map(str, shapes))})" for shapes in every)
    problem = f"{name} has the wrong signature {taken} -> {returned}"
    operation.refuse(label, problem, f"It must be {' -> '.join(wanted)}.")


def apply_computation(computation: Graph, operands: Values, static: Values = ()) -> list[Any]:
    """Apply a computation of scalars element by element; `static` values are passed whole."""
    shape = array_shape(operands[0])
    sizes, size = shape.dimensions, shape.size
    if not sizes:
        return evaluate_graph(computation, [*operands, *static])
    places = (0,) * len(operands) + (None,) * len(static)
    batched = batched_graph(computation, places, size)
    flat = [ops.reshape(operand, (size,)) for operand in operands]
    results = evaluate_graph(batched.graph, [*flat, *static])
    return [
        ops.broadcast_in_dim(result, sizes, ()) if at is None else ops.reshape(result, sizes)
        for result, at in zip(results, batched.known, strict=True)
    ]


def sum_over(value: Array, dimensions: Iterable[int]) -> Array:
    """Sum over `dimensions`, and remove them."""
    listed = tuple(sorted(dimensions))
    if not listed:
        return value
    operation, zero = _sum_of(array_shape(value).element_type, listed)
    return operation(value, zero)


def total(value: Array) -> Array:
    """Return the sum of all elements."""
    return sum_over(value, range(array_shape(value).rank))


@lru_cache(maxsize=4096)
def _sum_of(kind: ElementType, dimensions: tuple[int, ...]) -> tuple[Operation, np.ndarray]:
    """Return Reduce and its initial value for sums; cached, since rules sum often."""
    scalar = Shape(kind)
    computation = computation_of(ops.add, [scalar] * 2, "reduce")
    return REGISTRY["Reduce"](computation, dimensions), splat(0, scalar)
