"""debug_print and debug_callback: a Python function called with values while a program runs."""

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

#: Where a batch is in each operand of a call, if it has one; and which operand holds the number of
#: each member, or None. Where that is another's, the member's values stand in for values that it
#: does not have.
Batch = tuple[tuple[int | None, ...], int | None]


class HostCallback(Operation):
    """Base class of operations that call a Python function where the program runs."""

    hlo_name = "custom-call"
    operands = ("args...",)

    @property
    def target(self) -> str:
        """In a text for elsewhere, what nobody else knows."""
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
    """Calls a Python function with the operands' values, for what else it does. No results.

    Over a batch the function is called for each member; of nested `batches`, which are listed
    innermost first, the innermost counts slowest, as in JAX. A batch of branches or loops is
    computed for members too that take another branch or are done. The function is not called for
    these: operands after the first `arguments`, those of `callback`, hold numbers of members, of
    the innermost batch first, which tell. `ordered` calls come in order with other programs' too.
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
        # One call for all members; where they do not differ, one call.
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
    """The values of each member, but for those that only stand in."""
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
    """The number of the member in each batch for which a program is being made, innermost first."""
    numbers, is_staged = [], False
    for trace in enclosing(current_trace()):
        if isinstance(trace, BatchTrace) and is_staged:
            numbers.append(batch_axis(trace).index())
        is_staged = is_staged or type(trace) is GraphTrace
    return numbers


def _opened(value: ArrayLike) -> PyTree:
    """A tuple value as a Python tuple of its members; a token as its name."""
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
    """A user's function of pytrees, as one of the leaves that are arrays; the others it holds."""

    function: Callable[..., PyTree]
    tree: PyTreeDef
    is_value: tuple[bool, ...]
    held: tuple[object, ...]

    @classmethod
    def of(
        cls, function: Callable[..., PyTree], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> tuple[Self, list[Array]]:
        """The function of some of the leaves of its arguments, and these."""
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
    """Prints arrays; NumPy's printing options are those of the line that asked for it."""

    fmt: str
    options: tuple[tuple[str, Any], ...]

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> None:
        with np.printoptions(**dict(self.options)):
            # One call, so that lines of several threads stay whole.
            print(self.fmt.format(*args, **kwargs) + "\n", end="")

    def __hash__(self) -> int:
        return hash(self.fmt)


class _Checker(string.Formatter):
    """Finds fields without arguments, and arguments without fields."""

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
        problem = f"there is no argument for a field: {error}" if is_lacking else str(error)
        advice = "Write the format as for str.format, and give the values as arguments: "
        advice += "debug_print('x = {}', x), not an f-string, which would show the tracer."
        details, fault = [f"format {fmt!r}", problem], "the format does not fit the arguments"
        raise explain(AttributeValueError, "debug_print", fault, details, advice) from None


def debug_print(fmt: str, *args: PyTree, ordered: bool = False, **kwargs: PyTree) -> None:
    """Prints values when they are computed, under every transformation (JAX: debug.print).

    In a jitted function it prints when the compiled function runs; in a batch once for each
    member, those that do not take a branch left out (with values of others, under `jax.vmap`); in
    a derivative once, the values of the function itself. Calls inside one jitted function come in
    order. Where XLA runs in the background `jax.effects_barrier()` waits for the printing.

    Args:
        fmt: as for `str.format`: `"x = {}, y = {y:.3f}"`. No f-string.
        args: pytrees of arrays, which are printed as NumPy's, and of anything else.
        ordered: whether calls from several jitted functions, on one device, come in order, too.
        kwargs: the same by name.

    Raises:
        AttributeValueError: the format does not fit the arguments.

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
    """Calls a Python function with values when they are computed (JAX: debug.callback).

    It is called when, and as often as, `debug_print` prints. What it returns is dropped.

    Args:
        callback: a function of pytrees of NumPy arrays, which it must not change. It must not call
            JAX, which may be waiting for it.
        args: its arguments; leaves that are no arrays are passed on as they are.
        ordered: see `debug_print`.
        kwargs: the same by name.

    Raises:
        TransformError: `callback` is no function.

    Example:
        >>> seen = []
        >>> mx.jit(lambda x: mx.debug_callback(seen.append, x + 1))(np.int32(2))
        >>> jax.effects_barrier()
        >>> seen
        [array(3, dtype=int32)]
    """
    _call(checked_function(callback, "debug_callback"), args, kwargs, ordered)
