"""Computations: the scalar programs that reductions, windows, scatters and collectives apply."""

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

#: What an operation is given: a program of scalars, or a function that is traced to one.
Computation = Graph | Callable[..., object]

#: What the operation set's own builders become, by function and shapes: they never change.
_TRACED: dict[tuple[Callable[..., object], tuple[AnyShape, ...]], Graph] = {}


def computation_of(computation: Computation, shapes: ShapeList, subject: str) -> Graph:
    """The Graph of a computation that an operation was given: one, or a function that is traced."""
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
            advice = "Give a Graph or a function of scalars, such as minixla_ops.add."
            raise explain(ShapeError, subject, problem, [repr(computation)[:200]], advice)
        _check_arity(computation, len(shapes), subject)
        name = getattr(computation, "__name__", "computation")
        graph = closed_graph(computation, shapes, subject, name).pruned()
        module = getattr(computation, "__module__", None) or ""
        is_own = module.partition(".")[0] in ("minixla_ops", "minixla")
        if is_own and getattr(sys.modules.get(module), name, None) is computation:  # a builder
            for instruction in graph.instructions:
                instruction.source = None  # it stands for every caller's line
            _TRACED[key] = graph
    return graph


def _check_arity(computation: Callable[..., object], count: int, subject: str) -> None:
    try:
        signature = inspect.signature(computation)
    except (TypeError, ValueError):  # of a function that is not Python's
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        name = getattr(computation, "__name__", repr(computation))
        problem = f"the computation {name} does not take {count} arguments"
        details = [f"{name}{signature}: {error}"]
        advice = f"It must be a function of {count} scalars."
        raise explain(ShapeError, subject, problem, details, advice) from None


def program_of(
    operation: Operation, computation: Graph, shapes: ShapeList, function: Callable[..., object]
) -> Graph:
    """An operation as a program that a function of values is, kept with its computation."""
    subject = operation.builder_name
    traced = function, shapes, subject, f"{subject}_{computation.name}"
    return computation.remembered((operation, shapes), closed_graph, *traced).pruned()


def pulled_program(
    program: Graph,
    operands: Sequence[Array],
    cotangents: Sequence[Array | None],
    active: Iterable[bool],
) -> Sequence[Any]:
    """The cotangents of a program's operands marked in `active` from its results'; None is zero."""
    _, pullback = call_vjp_graphs(vjp_graphs(program, tuple(active)), operands)
    return pullback(
        {i: cotangent for i, cotangent in enumerate(cotangents) if cotangent is not None}
    )


class Monoid(NamedTuple):
    """An associative and commutative operation of two numbers that has an identity."""

    ufunc: np.ufunc
    identity: Callable[[np.dtype], np.ndarray]  # from a dtype
    of_pred: str  # the monoid that it is for pred


#: Monoids by what `monoid_of` calls them: the name of the operation in small letters.
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
    """Which of `MONOIDS` the computation just is; None for every other one."""
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
        return None  # of two numbers in lexicographic order, which NumPy's ufuncs do not follow
    return MONOIDS[name].of_pred if kind == "pred" else name


def identity_of(monoid: str, dtype: np.dtype) -> np.ndarray:
    """The identity of a monoid in an element type, as a NumPy scalar array."""
    return MONOIDS[monoid].identity(dtype)


def padding_of(monoid: str, dtype: np.dtype) -> np.ndarray:
    """The identity that changes nothing, not even -0, as a NumPy scalar array."""
    identity = identity_of(monoid, dtype)
    return -identity if monoid == "add" else identity


@cache
def extreme_of(dtype: np.dtype, lowest: bool) -> np.ndarray:
    """The lowest or highest value of an element type, infinite where it has infinities."""
    if dtype == np.bool_:
        return np.array(not lowest)
    limits = ml_dtypes.iinfo(dtype) if "int" in dtype.name else ml_dtypes.finfo(dtype)
    finite = np.asarray(limits.min if lowest else limits.max).astype(dtype)
    if "int" in dtype.name:
        return finite
    with np.errstate(all="ignore"):
        infinite = np.asarray(-np.inf if lowest else np.inf).astype(dtype)
    # Types without infinities saturate or give NaN.
    return infinite if np.isinf(infinite) else finite


def neutral_element(monoid: str, kind: ElementType) -> np.ndarray:
    """The identity of a monoid in an element type, as a scalar constant for traces."""
    if monoid in ("max", "min") and kind.is_complex:
        # By real part first, which XLA's maximum of complex numbers does too.
        extreme = math.inf if monoid == "min" else -math.inf
        return splat(complex(extreme, extreme), Shape(kind))
    return splat(identity_of(monoid, kind.dtype).item(), Shape(kind))


def padding_element(computation: Graph, kind: ElementType) -> np.ndarray | None:
    """What changes nothing, not even -0, as a scalar constant for traces; None where none does."""
    monoid = monoid_of(computation)
    if monoid is None:
        return None
    padding = padding_of(monoid, kind.dtype)
    # Of a type without zero it is NaN.
    return splat(padding.item(), Shape(kind)) if padding == padding else None


def is_identity(monoid: str, value: object) -> bool:
    """Whether a scalar is known to be the identity of a monoid while the program is traced."""
    if isinstance(value, Tracer):
        literal = value._value.literal if type(value) is GraphTracer else None
        value = None if literal is None else literal.array
    try:
        number = np.asarray(value)
    except TypeError:  # an array that is itself being traced, by JAX
        return False
    return value is not None and bool(number == identity_of(monoid, number.dtype))


def short_form(computation: Graph) -> str | None:
    """`stablehlo.add`, where the computation is one operation on its inputs in order; else None."""
    if monoid_of(computation) is None:
        return None
    (only,) = computation.pruned().instructions
    in_order = list(map(id, only.operands)) == list(map(id, computation.inputs))
    return f"stablehlo.{only.op.stablehlo_name}" if in_order else None


def check_computation(
    operation: Operation, label: str, name: str, graph: Graph, inputs: ShapeList, outputs: ShapeList
) -> None:
    """Rejects, for check `label`, a computation whose inputs or outputs have other shapes."""
    if graph.input_shapes == tuple(inputs) and graph.output_shapes == tuple(outputs):
        return
    every = graph.input_shapes, graph.output_shapes, inputs, outputs
    taken, returned, *wanted = (f"({', '.join(map(str, shapes))})" for shapes in every)
    problem = f"{name} has other inputs or outputs than it must have: {taken} -> {returned}"
    operation.refuse(label, problem, f"It must be {' -> '.join(wanted)}.")


def apply_computation(computation: Graph, operands: Values, static: Values = ()) -> list[Any]:
    """A computation of scalars applied at each position of values, to static ones as a whole."""
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
    """The sum over `dimensions`, which the result no longer has."""
    listed = tuple(sorted(dimensions))
    if not listed:
        return value
    operation, zero = _sum_of(array_shape(value).element_type, listed)
    return operation(value, zero)


def total(value: Array) -> Array:
    """The sum of all elements."""
    return sum_over(value, range(array_shape(value).rank))


@lru_cache(maxsize=4096)
def _sum_of(kind: ElementType, dimensions: tuple[int, ...]) -> tuple[Operation, np.ndarray]:
    """Reduce and its initial value for sums of an element type: rules sum often."""
    scalar = Shape(kind)
    computation = computation_of(ops.add, [scalar] * 2, "reduce")
    return REGISTRY["Reduce"](computation, dimensions), splat(0, scalar)
