"""debug_print and debug_callback: call a Python function with values while a program runs."""

import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Self

import jax.core
import numpy as np

import minixla_ops as ops
from minixla.core.argument_kinds import checks_kinds
from minixla.core.attributes import Attribute, Boolean, Function, Integer, attribute
from minixla.core.batching import BatchTrace
from minixla.core.errors import AttributeValueError, explain
from minixla.core.operation import Operation
from minixla.core.shapes import TokenShape, TupleShape, TupleValue, shape_of_data
from minixla.core.tracing import GraphTrace, Tracer, current_trace, shape_of
from minixla.engine import stage_for_jax
from minixla.engine.structures import PyTreeDef
from minixla.transforms.arguments import checked_function
from minixla.transforms.named_axes import batch_axis
from minixla.transforms.watching import enclosing
from minixla.typing import Array, ArrayLike, PyTree
from minixla_ops.programs.runs_programs import merged, parted

#: The batch dimension of each operand of a call, or None, and the index of the operand with the
#: batch elements' indices, or None. If the index there belongs to another element, the values are
#: placeholders.
Batch = tuple[tuple[int | None, ...], int | None]


class HostCallback(Operation):
    """Base class of operations that call a Python function where the program runs."""

    hlo_name = "custom-call"
    operands = ("args...",)

    @property
    def target(self) -> str:
        """A target name for exported text, which is not registered anywhere."""
        return f'"minixla.{self.builder_name}"'

    def stablehlo(self, emit, operands, shapes, results):
        if emit.calls_host:
            return emit.host_call(self.reference, operands, shapes, results, self.has_side_effect)
        attributes = {
            "call_target_name": self.target,
            "has_side_effect": self.has_side_effect or None,
        }
        return emit.operation("stablehlo.custom_call", operands, shapes, results, **attributes)

    def hlo_attributes(self, shapes):
        more = {"custom_call_has_side_effect": True} if self.has_side_effect else {}
        return {"custom_call_target": self.target, **more}


class DebugCallback(HostCallback):
    """Call a Python function with the operands' values, only for its side effects.

    Over a batch, the function is called for each element. For nested `batches`, which are listed
    innermost first, the innermost index varies slowest, as in JAX. Batched branches and loops also
    compute elements that take another branch or are finished. The function is not called for these.
    Operands after the first `arguments`, those of `callback`, are element indices that identify
    them, innermost batch first. `ordered` calls are also in order with those of other programs.
    """

    has_side_effect = True
    only_arrays = False
    zero_derivative = "it has no results"
    callback: Callable[..., PyTree] = attribute(Function(), hlo=None)
    ordered: bool = attribute(Boolean(), hlo=None)
    arguments: int = attribute(Integer(0), hlo=None)
    batches: tuple[Batch, ...] = attribute(Attribute(), default=(), hlo=None)

    def shape(self, *args):
        return ()

    def run(self, *args):
        if any(isinstance(argument, jax.core.Tracer) for argument in (jax.numpy.zeros(()), *args)):
            return stage_for_jax(self)(*args)
        return self.reference(*[np.asarray(current_trace().lift(argument)) for argument in args])

    def reference(self, *args):
        for member in _members(args, self.batches) if self.batches else [args]:
            self.callback(*member[: self.arguments])
        return ()

    def batch(self, operands, dimensions):
        # One call handles all elements; if they do not differ, it is called once.
        count = self.arguments + sum(number is not None for _, number in self.batches)
        batches, operands, number = self.batches, list(operands), None
        if count < len(operands) and dimensions[count] is not None:
            number = count
        if any(at is not None for at in dimensions[:count]):
            batches = (*batches, (tuple(dimensions[: count + 1]), number))
        elif number is not None:
            del operands[number]
        self(*operands, batches=batches)
        return (), ()


def _members(
    args: Sequence[np.ndarray], batches: Sequence[Batch]
) -> Iterator[Sequence[np.ndarray]]:
    """Yield the values of each batch element, without placeholders."""
    count, whole = len(batches), list(args)
    for done, (dimensions, _) in enumerate(reversed(batches)):
        pairs = zip_longest(whole, dimensions)
        whole = [x[None] if at is None else np.moveaxis(x, at + done, 0) for x, at in pairs]
    sizes = np.broadcast_shapes(*[x.shape[:count] for x in whole])
    whole = [np.broadcast_to(x, sizes + x.shape[count:]) for x in whole]
    for numbers in np.ndindex(*sizes):
        member = [x[numbers].copy() for x in whole]
        pairs = zip(numbers, batches, strict=True)
        if all(at is None or member[at] == number for number, (_, at) in pairs):
            yield member


def _numbers() -> list[Array]:
    """Return the element's index in each batch of the traced program, innermost first."""
    numbers, is_staged = [], False
    for trace in enclosing(current_trace()):
        if isinstance(trace, BatchTrace) and is_staged:
            numbers.append(batch_axis(trace).index())
        is_staged = is_staged or type(trace) is GraphTrace
    return numbers


def _opened(value: ArrayLike) -> PyTree:
    """Convert a tuple value to a Python tuple of its elements, and a token to its name."""
    shape = shape_of(value) if isinstance(value, (Tracer, TupleValue)) else None
    if isinstance(shape, TupleShape):
        return tuple([_opened(ops.get_tuple_element(value, i)) for i in range(len(shape.elements))])
    return "token" if isinstance(shape, TokenShape) else value


def _call(
    function: Callable[..., PyTree],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    ordered: bool,
) -> None:
    callback, values = OfArrays.of(function, args, kwargs)
    DebugCallback(callback, bool(ordered), len(values))(*values, *_numbers())


@dataclass(frozen=True, eq=False)
class OfArrays:
    """A user's function of pytrees as a function of array leaves; it stores the other leaves."""

    function: Callable[..., PyTree]
    tree: PyTreeDef
    is_value: tuple[bool, ...]
    held: tuple[object, ...]

    @classmethod
    def of(
        cls, function: Callable[..., PyTree], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> tuple[Self, list[Array]]:
        """Return the function of the array leaves of its arguments, and these leaves."""
        leaves, tree = jax.tree.flatten(jax.tree.map(_opened, (args, kwargs)))
        is_value = [isinstance(x, Tracer) or shape_of_data(x) is not None for x in leaves]
        values, held = parted(is_value, leaves)
        return cls(function, tree, tuple(is_value), tuple(held)), values

    def __call__(self, *values: ArrayLike) -> PyTree:
        args, kwargs = jax.tree.unflatten(self.tree, merged(self.is_value, values, self.held))
        return self.function(*args, **kwargs)

    def _key(self) -> tuple[object, ...]:
        held = [item if type(item) is str else id(item) for item in self.held]
        return self.function, self.tree, self.is_value, tuple(held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfArrays) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True)
class _Print:
    """Print arrays with the NumPy printing options of the line that created the call."""

    fmt: str
    options: tuple[tuple[str, Any], ...]

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> None:
        with np.printoptions(**dict(self.options)):
            # Print with one call, so that lines of several threads are not mixed.
            print(self.fmt.format(*args, **kwargs) + "\n", end="")

    def __hash__(self) -> int:
        return hash(self.fmt)


class _Checker(string.Formatter):
    """Find fields without arguments, and arguments without fields."""

    def format_field(self, value: object, format_spec: str) -> str:
        return ""

    def check_unused_args(
        self, used_args: Collection[int | str], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        unused += [name for name in kwargs if name not in used_args]
        if unused:
            raise ValueError(f"no field shows argument {unused[0]}")


def _check_format(fmt: str, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> None:
    try:
        _Checker().vformat(fmt, args, kwargs)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        is_lacking = isinstance(error, (IndexError, KeyError))
        problem = f"a field has no argument: {error}" if is_lacking else str(error)
        advice = "Write the format as for str.format, and pass the values as arguments: "
        advice += "debug_print('x = {}', x), not an f-string, which would show the tracer."
        details, fault = [f"format {fmt!r}", problem], "the format does not match the arguments"
        raise explain(AttributeValueError, "debug_print", fault, details, advice) from None


def debug_print(fmt: str, *args: PyTree, ordered: bool = False, **kwargs: PyTree) -> None:
    """Print values when they are computed, under every transformation (JAX: debug.print).

    In a jitted function, it prints when the compiled function runs. In a batch, it prints once for
    each element, except for elements that do not take the branch (under `jax.vmap`, with values of
    others). Under differentiation, it prints the primal values once. Calls inside one jitted
    function are in order. If XLA runs asynchronously, `jax.effects_barrier()` waits for the output.

    Args:
        fmt: as for `str.format`: `"x = {}, y = {y:.3f}"`. Not an f-string.
        args: pytrees of arrays, which are printed like NumPy arrays, and of other values.
        ordered: whether calls from several jitted functions, on one device, are also in order.
        kwargs: keyword arguments.

    Raises:
        AttributeValueError: the format does not match the arguments.

    Example:
        >>> mx.jit(lambda x: mx.debug_print("x = {}", x))(np.int32(2))
        x = 2
        >>> jax.effects_barrier()
    """
    _check_format(fmt, args, kwargs)
    _call(_Print(fmt, tuple(np.get_printoptions().items())), args, kwargs, ordered)


@checks_kinds
def debug_callback(
    callback: Callable[..., PyTree], *args: PyTree, ordered: bool = False, **kwargs: PyTree
) -> None:
    """Call a Python function with values when they are computed (JAX: debug.callback).

    It is called when `debug_print` would print. Its result is ignored.

    Args:
        callback: a function of pytrees of NumPy arrays, which it must not change. It must not call
            JAX, which may be waiting for it.
        args: its arguments; leaves that are not arrays are passed unchanged.
        ordered: see `debug_print`.
        kwargs: keyword arguments.

    Raises:
        TransformError: `callback` is not a function.

    Example:
        >>> seen = []
        >>> mx.jit(lambda x: mx.debug_callback(seen.append, x + 1))(np.int32(2))
        >>> jax.effects_barrier()
        >>> seen
        [array(3, dtype=int32)]
    """
    _call(checked_function(callback, "debug_callback"), args, kwargs, ordered)
