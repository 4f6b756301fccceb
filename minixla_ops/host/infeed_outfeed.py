"""Infeed and Outfeed, tokens (AfterAll), and what they share with Send and Recv."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from minixla.core.attributes import ShapeAttribute, Text, attribute
from minixla.core.builders import builder, builds
from minixla.core.operation import Operation, register
from minixla.core.processes import current_process
from minixla.core.shapes import TOKEN, AnyShape, Shape, TupleShape, TupleValue, shape_of_data
from minixla.core.stablehlo_text import quoted
from minixla.core.tracing import shape_of
from minixla_ops.vocabulary.batch_dimensions import batch_member, batch_size
from minixla_ops.vocabulary.shorthand import as_tuple
from minixla_ops.vocabulary.tuple_operations import tuple_leaves


class _Config(Text):
    """A string for the backend."""

    def stablehlo(self, value: str) -> str:
        return quoted(value)

    def hlo(self, value: str) -> str | None:
        return quoted(value) if value else None


@register
class AfterAll(Operation):
    """A token that comes after all its operands; of none, a new one. XLA: AfterAll, CreateToken.

    Args:
        tokens: what it comes after.

    Returns:
        A token.

    Checks:
        (C1) the operands are tokens.
    """

    stablehlo_name = "after_all"
    operands = ("tokens...",)
    zero_derivative = "tokens hold no numbers"
    missing_rules = {"batch": "tokens have no batch"}

    def shape(self, *tokens):
        if any(token is not TOKEN for token in tokens):
            self.refuse("C1", "an operand is not a token", "Give what `token=` calls return.")
        return TOKEN

    def reference(self, *tokens):
        return None


after_all = builder(AfterAll)


def create_token() -> Any:
    """A token that comes after nothing: AfterAll of none."""
    return after_all(())


def optional(token: Any) -> Sequence[Any]:
    """A token as operands; none for None."""
    return () if token is None else (token,)


class Transfer(Operation):
    """Base class: moves data in or out, in order with other side effects.

    The last operand may be a token, that orders the call after another; a token then is the last
    result too. Without, the order is that of the program's text.
    """

    has_side_effect = True
    #: How many operands stand before the token; None: any number.
    data_count: ClassVar[int | None] = 0

    def split(self, label: str, operands: Sequence[AnyShape]) -> tuple[list[Shape], bool]:
        """The shapes of the data, and whether a token follows; refuses others for check `label`."""
        has_token = TOKEN in operands[-1:]
        data = list(operands[:-1] if has_token else operands)
        wrong = self.data_count not in (None, len(data))
        if wrong or not all(isinstance(shape, Shape) for shape in data):
            advice = "Give arrays, and at most one token, by `token=`."
            self.refuse(label, "an operand is neither data nor its token", advice)
        return data, has_token  # type: ignore[return-value]  # each is a Shape

    #: `at_host(*data)`: what the host does where the program runs here, and what comes in.
    at_host: ClassVar[Callable[..., Any]]

    def received(self) -> Sequence[Shape]:
        """The shapes of the data that comes in."""
        return ()

    def emit_transfer(self, emit: Any, operands: Any, shapes: Any) -> tuple[list[str], str]:
        """Writes the operation; returns the data and the token."""
        has_token = TOKEN in shapes[-1:]
        # A token of its own leaves the order of the others as it is.
        before = emit.take_token() if emit.calls_host or not has_token else None
        *given, token = operands if has_token else [*operands, before]
        types, received = shapes[: len(given)], self.received()
        if emit.calls_host:
            emit.give_token([token])
            data = emit.host_call(self.at_host, given, types, received, True)
            token = emit.take_token()
        else:
            outer = [*given, token], [*types, TOKEN], [*received, TOKEN]
            name = f"stablehlo.{self.stablehlo_name}"
            *data, token = emit.operation(name, *outer, **self._written(0))
        if before is not None:
            emit.give_token([before if has_token else token])
        return data, token

    def stablehlo(self, emit, operands, shapes, results):
        data, token = self.emit_transfer(emit, operands, shapes)
        if results and isinstance(results[0], TupleShape):
            data = emit.operation("stablehlo.tuple", data, self.received(), results[:1])
        return [*data, token][: len(results)]

    def hlo(self, emit, operands, shapes, result):
        # In HLO the last operand always is a token.
        if TOKEN not in shapes[-1:]:
            operands = [*operands, emit.instruction("after-all", [], TOKEN)]
        return super().hlo(emit, operands, shapes, result)


class Outgoing(Transfer):
    """Base class: only data that goes out is batched, the members one after the other."""

    def at_host(self, *data):
        self.reference(*data)
        return ()

    def batch(self, operands, dimensions):
        has_token = shape_of(operands[-1]) is TOKEN
        *data, token = operands if has_token else [*operands, None]
        for index in range(batch_size(operands, dimensions)):
            pairs = zip(data, dimensions, strict=False)
            member = [batch_member(operand, at, index) for operand, at in pairs]
            sent = self.send_member([*member, *optional(token)])
            token = sent if has_token else None
        return self.batched_result(data, dimensions, token)

    def send_member(self, operands: Sequence[Any]) -> Any:
        """Sends what a batch has for one member; returns the token, if it has one."""
        return self(*operands)

    def batched_result(self, data: Any, dimensions: Sequence[int | None], token: Any) -> Any:
        """The results, and where their batch is, for the last token, None where there is none."""
        return ((), ()) if token is None else (token, None)


@register
class Infeed(Transfer):
    """Reads the next item of the device's infeed. XLA: Infeed, InfeedWithToken.

    An empty tuple reads nothing.

    Args:
        shape: the shape of the item, an array or a tuple of arrays.
        config: a string for the backend.
        token: what the reading comes after; default: the side effects before it.

    Returns:
        A value of `shape`, and with `token` a pair of that and a token.

    Checks:
        (C1) the shape is an array's or that of a tuple of arrays; nested tuples are not supported.
        (C2) at most one operand, a token.
        (C3) when it runs: the item has that shape.

    Raises:
        DeadlockError: when it runs, there is no item left: see `mx.transfer_to_infeed`.
    """

    stablehlo_name = "infeed"
    lacking = {"tpu": "any"}
    operands = ("token...",)
    output_shape: AnyShape = attribute(ShapeAttribute(), stablehlo=None, hlo=None)
    infeed_config: str = attribute(_Config(), default="")
    zero_derivative = "what it reads depends on no operand"
    missing_rules = {"batch": "every member of a batch reads the one item: no operand is batched"}

    def shape(self, *token):
        if not all(isinstance(each, Shape) for each in self.received()):
            self.refuse_attribute("C1", "the shape is nested", "Give a tuple of arrays.")
        _, has_token = self.split("C2", token)
        return (self.output_shape, TOKEN) if has_token else self.output_shape

    def reference(self, *token):
        leaves = self.received()
        item = current_process().next_infeed() if leaves else ()
        is_tuple = isinstance(self.output_shape, TupleShape)
        values = item if is_tuple and isinstance(item, tuple) else (item,)
        shapes = tuple(map(shape_of_data, values))
        if shapes != leaves or isinstance(item, tuple) != is_tuple:
            problem = f"the item has another shape, ({', '.join(map(str, shapes))})"
            advice = "Items must be of the shapes and element types that the program reads."
            self.refuse("C3", problem, advice)
        pairs = zip(values, leaves, strict=True)
        arrays = tuple([np.asarray(value).astype(leaf.dtype) for value, leaf in pairs])
        data = arrays if is_tuple else arrays[0]
        return (data, None) if token else data

    def received(self):
        return _leaf_shapes(self.output_shape)

    def at_host(self):
        return as_tuple(self.reference())

    def hlo(self, emit, operands, shapes, result):
        both = TupleShape([self.output_shape, TOKEN])
        name = super().hlo(emit, operands, shapes, both)
        if result is both:
            return name
        return emit.instruction("get-tuple-element", [name], self.output_shape, index=0)


def _leaf_shapes(shape: AnyShape) -> tuple[Any, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


@builds(Infeed)
def infeed(shape: AnyShape, config: str = "", token: Any = None) -> Any:
    return Infeed(shape, config)(*optional(token))


@register
class Outfeed(Outgoing):
    """Writes an array, or a tuple of arrays, to the device's outfeed. XLA: Outfeed.

    Its results are none, or a token where it was given one.

    Args:
        operand: an array, or a tuple or list of arrays.
        shape_with_layout: the operand's shape; default: that. A layout has no effect.
        outfeed_config: a string for the backend.
        token: what the writing comes after; default: the side effects before it.

    Returns:
        None, or with `token` a token.

    Checks:
        (C1) the operands are arrays, and at most one token, the last.
        (C2) shape_with_layout is the shape of what is written.
    """

    stablehlo_name = "outfeed"
    lacking = {"tpu": "any"}
    operands = ("operands...",)
    data_count = None
    shape_with_layout: AnyShape = attribute(ShapeAttribute(), stablehlo=None, hlo="outfeed_shape")
    outfeed_config: str = attribute(_Config(), default="")
    zero_derivative = "nothing that it gives back depends on its operands"

    def shape(self, *operands):
        data, has_token = self.split("C1", operands)
        if tuple(data) != _leaf_shapes(self.shape_with_layout):
            advice = "Give the operand's own shape, or none."
            self.refuse("C2", "shape_with_layout is not the operand's shape", advice)
        return TOKEN if has_token else ()

    def reference(self, *operands):
        count = len(_leaf_shapes(self.shape_with_layout))
        arrays = tuple(map(np.array, operands[:count]))
        is_tuple = isinstance(self.shape_with_layout, TupleShape)
        current_process().put_outfeed(arrays if is_tuple else arrays[0])
        return None if len(operands) > count else ()

    def hlo(self, emit, operands, shapes, result):
        if isinstance(self.shape_with_layout, TupleShape):
            count = len(self.shape_with_layout.elements)
            data = emit.instruction("tuple", operands[:count], self.shape_with_layout)
            operands, shapes = [data, *operands[count:]], [self.shape_with_layout, *shapes[count:]]
        return super().hlo(emit, operands, shapes, TOKEN)


@builds(Outfeed)
def outfeed(
    operand: Any,
    shape_with_layout: AnyShape | None = None,
    outfeed_config: str = "",
    token: Any = None,
) -> Any:
    operand = TupleValue(operand) if isinstance(operand, (list, tuple)) else operand
    shape = shape_of(operand) if shape_with_layout is None else shape_with_layout
    result = Outfeed(shape, outfeed_config)(*tuple_leaves(operand), *optional(token))
    return None if token is None else result
