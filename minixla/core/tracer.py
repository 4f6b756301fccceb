"""Tracers: their Python and NumPy protocols, and the shapes of values."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import jax.core
import numpy as np

from minixla.core import errors, hooks
from minixla.core.errors import (
    ConcretizationError,
    ShapeError,
    TransformError,
    explain,
    too_large,
)
from minixla.core.shapes import (
    ADDRESS_SPACE,
    AnyShape,
    Shape,
    TokenShape,
    TupleShape,
    TupleValue,
    is_mutable,
    shape_of_data,
    symbolic_sizes,
)
from minixla.core.source import find_source, given_as, running_expression, text_of
from minixla.core.state import state
from minixla.core.value_types import Array, DTypeLike, Results


@lru_cache(maxsize=4096)
def abstract_value(shape: AnyShape, weak: bool = False) -> jax.core.ShapedArray:
    """Return JAX's abstract value for an array shape."""
    if not isinstance(shape, Shape):
        problem = f"a value of shape {shape} cannot be passed to JAX"
        advice = "Return arrays: extract elements of a tuple with get_tuple_element."
        raise explain(TransformError, "jit", problem, advice=advice)
    if shape.nbytes > ADDRESS_SPACE:
        raise too_large("jit", f"an array of shape {shape} is too large for memory")
    if shape.is_dynamic:
        problem = f"an array of shape {shape}, whose size is known only at run time, cannot be "
        problem += "passed to JAX"
        advice = "Compute with it inside one jitted function, and reduce it or set its size back "
        advice += "to the bound there (set_dimension_size). mx.reference supports dynamic sizes."
        raise explain(ShapeError, "jit", problem, advice=advice)
    return jax.core.ShapedArray(shape.dimensions, shape.dtype, weak_type=weak)


class Tracer(jax.core.Tracer):
    """A value of a trace, with the trace's knowledge about it.

    It supports NumPy's protocols: the operation set and `minixla.numpy` install operators, methods
    and attributes of arrays on this class. It is also a JAX tracer, so that JAX's functions accept
    it.
    """

    __slots__ = ("_shape", "_weak")
    _trace: Any
    _shape: AnyShape
    _weak: bool
    # Attributes that JAX reads. The source line is kept with the instruction.
    _line_info = None
    __jax_array__ = None  # type: ignore[assignment]  # as for arrays
    aval: Any = property(lambda self: abstract_value(self._shape, self.weak_type))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # JAX's attributes
        # JAX's arrays have methods that ours lack; tuples and dynamic arrays do not have them.
        shape = self._shape
        if isinstance(shape, Shape) and not shape.is_dynamic:
            return super().__getattr__(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _is_traced_array(self) -> bool:
        """Return whether the value is an array; `isinstance(x, jax.Array)` calls this method."""
        return isinstance(self._shape, Shape)

    def to_concrete_value(self) -> Array | None:
        """Return the value if it is known, mostly under differentiation, else None."""
        return None

    def _contents(self) -> list[tuple[str, object]]:
        """Tell `jax.closure_convert` whether the value may be differentiated."""
        shape = self._shape
        is_inexact = isinstance(shape, Shape) and shape.element_type.is_inexact
        return [("tangent", hooks.engine().DIFFERENTIATED)] if is_inexact else []

    @property
    def _debug_info(self) -> NoReturn:
        """Raise LeakedTracerError: JAX reads this for its error about a trace that has ended."""
        raise leaked(self, "a JAX function")

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimension sizes."""
        return self._array_shape().dimensions

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self._array_shape().dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._array_shape().dimensions)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array_shape().size

    @property
    def weak_type(self) -> bool:
        """True if it was computed only from Python scalars, so promotion favors other types."""
        return self._weak

    def _mark_weak(self) -> None:
        """Set `weak_type`; booleans are never weak."""
        shape = self._shape
        self._weak = isinstance(shape, Shape) and shape.element_type.kind != "pred"

    def _weak_copy(self) -> "Tracer":
        """Return a weakly typed tracer of the same value, if the trace supports it."""
        return self

    def _array_shape(self) -> Shape:
        if not isinstance(self._shape, Shape):
            details = [f"the value is {self._shape}"]
            advice = "Extract elements of a tuple with get_tuple_element."
            raise explain(ShapeError, type(self).__name__, "expected an array", details, advice)
        return self._shape

    def _concrete(self, wanted: str) -> Array:
        """Return the concrete value for Python; staged tracers raise ConcretizationError."""
        raise NotImplementedError(f"{type(self).__name__} has no _concrete")

    def __bool__(self) -> bool:
        return bool(self._concrete("a Python bool"))

    def __int__(self) -> int:
        return int(self._concrete("a Python int"))

    def __float__(self) -> float:
        return float(self._concrete("a Python float"))

    def __complex__(self) -> complex:
        return complex(self._concrete("a Python complex"))

    def __index__(self) -> int:
        return self._concrete("a Python index").__index__()

    def __format__(self, format_spec: str) -> str:
        if not format_spec:
            return str(self)
        return format(self._concrete("a string"), format_spec)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._concrete("a NumPy array"), dtype=dtype)

    def item(self) -> bool | int | float | complex:
        """Return the only element as a Python scalar."""
        return self._concrete("a Python scalar").item()

    def tolist(self) -> object:
        """Return the elements as nested lists."""
        return self._concrete("a list").tolist()

    def __len__(self) -> int:
        sizes = self.shape
        if not sizes:
            problem = "a scalar has no length"
            advice = "Only arrays with dimensions have a length; x.size is the number of elements."
            raise explain(ShapeError, "len", problem, [f"the value is {self!r}"], advice)
        return sizes[0]

    def __hash__(self) -> int:
        problem = f"unhashable type: {type(self).__name__!r}"
        advice = "A traced value cannot be a dictionary key, a set element or the argument of a "
        advice += (
            "cached function: use a name or a Python number, or mark it static (static_argnums)."
        )
        raise explain(ConcretizationError, "hash", problem, [f"the value is {self!r}"], advice)

    def __reduce__(self) -> NoReturn:
        """Raise ConcretizationError: a tracer has no meaning outside its trace."""
        problem, details = "a traced value cannot be pickled", [f"the value is {self!r}"]
        advice = "Pickle the result of the function instead, or the graph (mx.make_graph)."
        raise explain(ConcretizationError, type(self).__name__, problem, details, advice)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._shape}>"


class WrappingTracer(Tracer):
    """A value of the parent trace, and the trace's knowledge about it, which is not None."""

    __slots__ = ("known", "value")
    known: Any
    value: Any

    def __init__(self, trace: jax.core.Trace, value: object, known: object) -> None:
        self._trace = trace
        self._shape = value._shape if isinstance(value, Tracer) else shape_of(value)
        self.value = value
        self.known = known

    @property
    def aval(self) -> jax.core.ShapedArray:
        """JAX's abstract value, with the sharding and the varying axes of JAX's values."""
        known = getattr(self.value, "aval", None)
        return abstract_value(self._shape, self.weak_type) if known is None else known

    @property
    def weak_type(self) -> bool:
        """Return whether the value is weakly typed."""
        return weak_type_of(self.value)

    def _mark_weak(self) -> None:
        # The value may be used elsewhere as a strongly typed one.
        self.value = self._trace.parent.weakly(self.value)

    def _weak_copy(self) -> "WrappingTracer":
        return type(self)(self._trace, self._trace.parent.weakly(self.value), self.known)

    def to_concrete_value(self) -> Array | None:
        """Return the differentiated value if it is known, else None."""
        value = self.value
        return value.to_concrete_value() if isinstance(value, jax.core.Tracer) else value

    def _concrete(self, wanted: str) -> Array:
        """Return the concrete value if its derivative would not be lost."""
        if wanted not in _PIECEWISE_CONSTANT:
            where, details = "but the value is being differentiated", [f"the value is {self!r}"]
            advice = "Its derivative would be lost; if it is not needed, use the value of "
            advice += "mx.stop_gradient(x)."
            raise unknown_value(self._trace.transformation, wanted, where, details, advice)
        return self.value._concrete(wanted) if isinstance(self.value, Tracer) else self.value


def unwrapped(
    trace: jax.core.Trace, kind: type[WrappingTracer], operands: Sequence[object]
) -> tuple[list[Any], list[Any], bool]:
    """Return the parent's values, knowledge about own tracers (else None), and if any is own."""
    values: list[Any] = []
    known: list[Any] = []
    has_own = False
    for operand in operands:
        if type(operand) is kind and operand._trace is trace:
            values.append(operand.value)
            known.append(operand.known)
            has_own = True
        else:
            values.append(operand)
            known.append(None)
    return values, known, has_own


def wrapped(
    trace: jax.core.Trace,
    kind: type[WrappingTracer],
    results: Results,
    known: Any,  # noqa: ANN401  # as many as results
) -> Results:
    """Wrap one result or a tuple in tracers, except where the knowledge is None."""
    if type(results) is not tuple:
        return results if known is None else kind(trace, results, known)
    if known is None:
        return results
    pairs = zip(results, known, strict=True)
    return tuple([x if state is None else kind(trace, x, state) for x, state in pairs])


def weak_type_of(value: object) -> bool:
    """Return whether `value` is weakly typed: a Python scalar, or computed only from them."""
    if isinstance(value, Tracer):  # most values: the other checks take four times as long
        return value.weak_type
    if isinstance(value, (np.generic, bool)):  # np.float64 is a Python float too, but strong
        return False
    return isinstance(value, (int, float, complex)) or bool(getattr(value, "weak_type", False))


def shape_of(value: object, subject: str = "shape_of") -> AnyShape:
    """Return the shape of a tracer, an array, a Python scalar, a TupleValue, or a Shape.

    Args:
        value: the value.
        subject: the name in errors.

    Returns:
        A Shape, a TupleShape, or a TokenShape.

    Raises:
        ShapeError: `value` is none of these; the message begins with `subject`.

    Example:
        >>> mx.shape_of(np.ones((2, 3), np.float32))
        f32[2,3]
    """
    if isinstance(value, Tracer):
        return value._shape
    shape = shape_of_data(value)
    if shape is not None:
        return shape
    if isinstance(value, TupleValue):
        return TupleShape(map(shape_of, value.elements))
    if isinstance(value, (Shape, TupleShape, TokenShape)):
        return value
    raise not_a_value(value, subject)


def is_dynamic(value: object) -> bool:
    """Return whether a value, or a Shape, has a dynamic dimension; only tracers can."""
    if isinstance(value, Tracer):
        return value._shape.is_dynamic
    return isinstance(value, Shape) and value.is_dynamic


# Subjects of messages that several functions share.
_NO_SUBJECTS = ("evaluation", "operator", "promotion", "shape_of")


def named_operand(value: object, subject: str, what: str) -> tuple[str, str]:
    """Return the function and the argument to name in a message about an operand."""
    if what != "an operand" or state.source is not None:
        return subject, what
    function, place = given_as(value) or (None, None)
    if subject in _NO_SUBJECTS and function is not None:
        subject = function
    return subject, what if place is None else f"argument {place}"


_ADVICE = "Pass an array, a NumPy scalar or a Python scalar; unpack containers first."


def not_a_value(
    value: object, subject: str, what: str = "an operand", advice: str = _ADVICE
) -> ShapeError:
    """Build the error for a value that is not an array."""
    subject, what = named_operand(value, subject, what)
    problem = f"{what} of type {type(value).__name__} is not an array"
    if is_mutable(value):
        problem = f"{what} is a mutable array (jax.new_ref)"
        advice = "Read it, as in x[...]. Only mx.jit, of minixla's transformations, supports it."
    elif sizes := symbolic_sizes(value):
        problem = f"{what} has symbolic sizes ({', '.join(map(str, sizes))}), which traces of "
        problem += "minixla do not support"
        advice = (
            "Pass arrays with static sizes, or export the function with mx.export, which traces "
        )
        advice += "it at several sizes."
        return explain(ShapeError, subject, problem, [repr(value)[:200]], advice)
    elif (dtype := getattr(value, "dtype", None)) is not None:
        problem = f"{what} has elements of type {dtype}, which XLA does not support"
    return explain(ShapeError, subject, problem, [repr(value)[:200]], advice)


def check_value(value: object, subject: str, what: str = "an operand") -> None:
    """Raise ShapeError for values that are not arrays, IntegerRangeError for too large ints."""
    if isinstance(value, (Tracer, TupleValue)):
        return
    shape = shape_of_data(value)
    if shape is None:
        raise not_a_value(value, subject, what)
    if isinstance(value, int):
        host_array(value, shape, subject, what)


def host_array(value: object, shape: Shape, subject: str, what: str = "an operand") -> np.ndarray:
    """Convert a NumPy array or Python scalar to the element type of `shape`, if it fits."""
    try:
        return np.asarray(value, shape.dtype)
    except OverflowError:
        subject, what = named_operand(value, subject, what)
        problem = f"{what}, a Python int, does not fit {shape.element_type}"
        advice = "Pass an array with a wider type, or a float; 64-bit types need JAX's "
        advice += "jax_enable_x64."
        raise explain(errors.IntegerRangeError, subject, problem, [str(value)], advice) from None


#: Conversions of a differentiated value that are allowed: their derivative is zero.
_PIECEWISE_CONSTANT = frozenset(("a Python bool", "a Python int", "a Python index", "a string"))


def unknown_value(
    subject: str, wanted: str, where: str, details: Sequence[str], otherwise: str
) -> ConcretizationError:
    """Build the error for a value that is unknown or must not be concretized."""
    from minixla.core.concretization_advice import advice_for  # only needed for errors

    # `subject` is the transformation, `wanted` a key of `concretization_advice`, `where` the
    # reason, `details` describe the value, and `otherwise` is further advice.
    source = state.source or find_source(2)
    # The line of a transformed instruction is not the line that needs the value.
    expression = None if state.source else running_expression(source)
    asked = [] if expression is None else [f"required by {text_of(expression.node)}"]
    problem = f"{wanted} was required, {where}"
    advice = f"{advice_for(wanted, expression)}\n  {otherwise}"
    return explain(ConcretizationError, subject, problem, [*asked, *details], advice, source)


def leaked(tracer: Tracer, subject: str) -> errors.LeakedTracerError:
    """Build the error for a tracer whose trace has ended or is not an enclosing one."""
    trace = tracer._trace
    details = [f"the tracer is {tracer!r}, made by {type(trace).transformation}"]
    instruction = getattr(getattr(tracer, "_value", None), "instruction", None)
    if instruction is not None:
        details.append(f"it was made by {instruction.op.builder_name} at {instruction.source}")
    if trace.alive:
        problem = "a tracer was used outside its transformation, which is still active"
        advice = "Pass the value as an argument: a function that runs outside (a custom_jvp or "
        advice += "custom_vjp rule, mx.reference, a callback) cannot read it from an enclosing one."
    else:
        problem = "a tracer was used after its transformation had ended"
        advice = "Return the value from the transformed function instead of storing it in a "
        advice += "global, an attribute or a list that outlives the call."
    return explain(errors.LeakedTracerError, subject, problem, details, advice)
