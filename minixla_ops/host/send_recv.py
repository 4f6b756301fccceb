"""Send and Recv: transfers by channel between programs, or to and from the host."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

import minixla_ops as ops
from minixla.core import TOKEN, Operation, Shape, TupleShape, register, shape_of
from minixla.core.attributes import Flag, Literal, ShapeAttribute, attribute
from minixla.core.builders import derived
from minixla.core.errors import TransformError, explain
from minixla.typing import Array, ArrayLike
from minixla_ops.collectives.collective_groups import Channel
from minixla_ops.collectives.processes import current_process
from minixla_ops.helpers.shorthand import as_results, zeros
from minixla_ops.host.transfers import Outgoing, Transfer, optional

_REQUEST = Shape("u32")


class _OnChannel(Operation):
    """Base class of both halves of a transfer.

    Attributes:
        channel_id: the channel, the same for both halves.
        is_host_transfer: whether the host is at the other end.
    """

    channel_id: int = attribute(Channel(minimum=1), stablehlo="channel_handle")
    is_host_transfer: bool = attribute(Flag(), default=False)


class _Start(_OnChannel, Transfer):
    """Base class of Send and Recv, which return data, request and token in a tuple."""

    no_derivative = "the transpose would need a transfer in the other direction"
    #: The type of its channel in StableHLO if it communicates with the host.
    host_type: ClassVar[int]

    def _written(self, text: str) -> dict[str, Any]:
        written = super()._written(text)
        if self.is_host_transfer and text == "stablehlo":
            written["channel_handle"] = Channel().stablehlo(self.channel_id, self.host_type)
        return written

    def stablehlo(self, emit, operands, shapes, results):
        if emit.calls_host and not self.is_host_transfer:
            problem = "JAX runs one program on all devices, without a partner on the channel"
            advice = "between the devices of one program use collective_permute, or mx.ppermute."
            advice = f"Run the programs of all processes together with mx.simulate; {advice}"
            raise explain(TransformError, self.builder_name, problem, advice=advice)
        data, token = self.emit_transfer(emit, operands, shapes)
        # The id of the request is not read.
        request = emit.constant(Literal.splat(0, _REQUEST))
        parts = [*(data or operands[:1]), request, token]
        return emit.operation("stablehlo.tuple", parts, results[0].elements, results)


@register
class Send(_Start, Outgoing):
    """Start to send a value to the Recv on the channel in another program. XLA: Send.

    The first Recv of another process on the channel takes the value. SendWithTokens and SendToHost
    are Send with a token, and to the host.

    Checks:
        (C1) the operand is an array, optionally followed by a token.
    """

    spec_names = ("Send", "SendWithTokens", "SendToHost")
    stablehlo_name = "send"
    operands = "operand", "token..."
    data_count = 1
    host_type = 2

    def shape(self, *operands):
        (data,), _ = self.split("C1", operands)
        return TupleShape([data, _REQUEST, TOKEN])

    def reference(self, operand, *token):
        process, is_to_host = current_process(), self.is_host_transfer
        request = process.start_send(self.channel_id, np.array(operand), is_to_host)
        return operand, np.asarray(request, np.uint32), None

    def send_member(self, operands):
        return SendDone(self.channel_id, self.is_host_transfer)(self(*operands))

    def batched_result(self, data, dimensions, token):
        # All elements are sent already; request 0 makes SendDone return without waiting.
        token = ops.create_token() if token is None else token
        return ops.tuple([*data, zeros(_REQUEST), token]), (dimensions[0], None, None)


class _Done(_OnChannel):
    """Base class of SendDone and RecvDone."""

    stablehlo_name = "get_tuple_element"
    operands = ("context",)
    only_arrays = False
    has_side_effect = True
    #: The elements of the context that it returns.
    given: ClassVar[Sequence[int]]

    def shape(self, context):
        elements: Any = context.elements if isinstance(context, TupleShape) else ()
        if elements[1:] != (_REQUEST, TOKEN) or not isinstance(elements[0], Shape):
            problem = "the operand must be the context of a transfer"
            self.refuse("C1", problem, "Pass the result of Send or Recv.")
        return as_results([elements[index] for index in self.given])

    def stablehlo(self, emit, operands, shapes, results):
        member = "stablehlo.get_tuple_element", operands, shapes
        pairs = zip([f"{index} : i32" for index in self.given], results, strict=True)
        return [emit.operation(*member, [result], index=index)[0] for index, result in pairs]


@register
class SendDone(_Done):
    """Wait until the value of a Send has been taken. XLA: SendDone.

    Checks:
        (C1) the operand is the context of a Send.
    """

    given = (2,)
    zero_derivative = "a token holds no numbers"

    def reference(self, context):
        if context[1]:
            current_process().finish_send(int(context[1]))

    def batch(self, operands, dimensions):
        return self(*operands), None


@register
class Recv(_Start):
    """Start to receive a value from the Send on the channel in another program. XLA: Recv.

    The value is that of the first Send of another process on the channel. RecvWithTokens and
    RecvToHost (which receives from the host) are Recv with a token, and from the host.

    Attributes:
        output_shape: the shape of the value.

    Checks:
        (C1) there is at most one operand, a token.
        (C2) the shape is an array shape.
    """

    spec_names = ("Recv", "RecvWithTokens", "RecvToHost")
    stablehlo_name = "recv"
    operands = ("token...",)
    host_type = 3
    output_shape: Shape = attribute(ShapeAttribute(), stablehlo=None, hlo=None)  # type: ignore[misc]  # by name
    missing_rules = {"batch": "all batch elements get the same value: operands are not batched"}

    def shape(self, *token):
        self.split("C1", token)
        if not isinstance(self.output_shape, Shape):
            self.refuse_attribute(
                "C2", "the shape must be an array shape", "Receive arrays separately."
            )
        return TupleShape([self.output_shape, _REQUEST, TOKEN])

    def reference(self, *token):
        request = current_process().start_receive(self.channel_id, self.is_host_transfer)
        buffer = np.zeros(self.output_shape.dimensions, self.output_shape.dtype)
        return buffer, np.asarray(request, np.uint32), None

    def received(self):
        return (self.output_shape,)

    def at_host(self):
        process = current_process()
        return (process.finish_receive(process.start_receive(self.channel_id, from_host=True)),)


@register
class RecvDone(_Done):
    """Wait for the value of a Recv; return it and a token. XLA: RecvDone.

    Checks:
        (C1) the operand is the context of a Recv.
        (C2) when it runs: the value has the shape that the Recv declared.
    """

    given = (0, 2)
    no_derivative = _Start.no_derivative
    missing_rules = {"batch": Recv.missing_rules["batch"]}

    def reference(self, context):
        value, buffer = current_process().finish_receive(int(context[1])), context[0]
        value = np.asarray(value)
        if (value.dtype, value.shape) != (buffer.dtype, buffer.shape):
            sent, wanted = [f"{array.dtype}{list(array.shape)}" for array in (value, buffer)]
            self.refuse("C2", f"{sent} was sent, but {wanted} was declared")
        return value, None


def _send(operand: ArrayLike, handle: int, token: object, to_host: bool = False) -> Any:
    done = SendDone(handle, to_host)(Send(handle, to_host)(operand, *optional(token)))
    return None if token is None else done


def _recv(shape: Shape, handle: int, token: object, from_host: bool = False) -> Any:
    context = Recv(handle, from_host, output_shape=shape)(*optional(token))
    done = RecvDone(handle, from_host)(context)
    return done[0] if token is None else done


def send(operand: ArrayLike, handle: int, token: object = None) -> Any:
    """Send to the recv on the channel in another program, and wait until it is taken.

    XLA: Send.

    It combines Send and SendDone.

    Args:
        operand: an array.
        handle: the channel.
        token: a token that it follows; default: the previous side effects.

    Returns:
        None; with `token`, a token.

    Raises:
        ShapeError: see Send.

    Example:
        >>> f32 = mx.Shape("f32")
        >>> programs = [[lambda x: ops.send(x, 1)], [lambda: ops.recv(f32, 1)]]
        >>> mx.simulate(programs, [[(np.float32(3),)], [()]])
        [[None], [array(3., dtype=float32)]]
    """
    return _send(operand, handle, token)


def recv(shape: Shape, handle: int, token: object = None) -> Any:
    """Receive the value of the send on the channel in another program. XLA: Recv.

    It combines Recv and RecvDone.

    Args:
        shape: the shape of the value.
        handle: the channel.
        token: a token that it follows; default: the previous side effects.

    Returns:
        The value; with `token`, a pair of the value and a token.

    Raises:
        AttributeValueError: see Recv.

    Example:
        >>> f32 = mx.Shape("f32")
        >>> programs = [[lambda x: ops.send(x, 1)], [lambda: ops.recv(f32, 1)]]
        >>> mx.simulate(programs, [[(np.float32(3),)], [()]])
        [[None], [array(3., dtype=float32)]]
    """
    return _recv(shape, handle, token)


def send_with_tokens(operand: ArrayLike, token: object, handle: int) -> Any:
    """Run `send` after `token`; return a token. XLA: SendWithTokens.

    Args:
        operand: an array.
        token: the token that it follows.
        handle: the channel.

    Returns:
        A token.

    Example:
        >>> write = lambda: (ops.send_with_tokens(np.float32(3), ops.create_token(), 1), None)[1]
        >>> mx.simulate([[write], [lambda: ops.recv(mx.Shape("f32"), 1)]], [[()], [()]])
        [[None], [array(3., dtype=float32)]]
    """
    return _send(operand, handle, token)


def recv_with_tokens(token: object, shape: Shape, handle: int) -> tuple[Array, Any]:
    """Run `recv` after `token`; return the value and a token. XLA: RecvWithTokens.

    Args:
        token: the token that it follows.
        shape: the shape of the value.
        handle: the channel.

    Returns:
        The value, and a token.

    Example:
        >>> read = lambda: ops.recv_with_tokens(ops.create_token(), mx.Shape("f32"), 1)[0]
        >>> mx.simulate([[lambda: ops.send(np.float32(3), 1)], [read]], [[()], [()]])
        [[None], [array(3., dtype=float32)]]
    """
    return _recv(shape, handle, token)


def send_to_host(
    operand: ArrayLike, token: object, shape_with_layout: Shape | None, handle: int
) -> Any:
    """Send to the host on a channel, after `token`; return a token. XLA: SendToHost.

    Args:
        operand: an array.
        token: the token that it follows.
        shape_with_layout: the operand's shape, or None.
        handle: the channel.

    Returns:
        A token.

    Raises:
        ShapeError: `shape_with_layout` is not the operand's shape.

    Example:
        >>> channels = {}
        >>> write = lambda x: (ops.send_to_host(x, ops.create_token(), None, 1), None)[1]
        >>> mx.simulate(write, [[(np.float32(3),)]], host=channels)
        [[None]]
        >>> channels
        {1: [array(3., dtype=float32)]}
    """
    if shape_with_layout is not None and shape_with_layout is not shape_of(operand):
        problem = (
            f"shape_with_layout {shape_with_layout} must be the operand's shape {shape_of(operand)}"
        )
        Send(handle, True).refuse("C1", problem, "Pass the operand's shape, or None.")
    return _send(operand, handle, token, True)


def recv_to_host(token: object, shape: Shape, handle: int) -> tuple[Array, Any]:
    """Receive *from* the host on a channel, after `token`; return the value and a token.

    XLA: RecvToHost.

    XLA's documentation calls it RecvToHost; the builder's method is RecvFromHost.

    Args:
        token: the token that it follows.
        shape: the shape of the value.
        handle: the channel.

    Returns:
        The value, and a token.

    Raises:
        AttributeValueError: see Recv.

    Example:
        >>> f32 = mx.Shape("f32")
        >>> read = lambda: ops.recv_to_host(ops.create_token(), f32, 1)[0]
        >>> mx.simulate(read, [[()]], host={1: [np.float32(3)]})
        [[array(3., dtype=float32)]]
    """
    return _recv(shape, handle, token, True)


def _second_half(operation: type[_Done], start: str) -> Callable[[object], NoReturn]:
    """Return the builder of the second half of `start`, which raises an error."""
    name = operation.builder_name

    def builder(context: object) -> NoReturn:
        advice = f"Call ops.{start}, which includes it and waits"
        advice = f"{advice}: XLA splits it into two halves."
        raise explain(TransformError, name, "it has no builder", advice=advice)

    builder = derived(operation, builder)
    builder.__doc__ = f"""Raise an error: `{start}` includes it; only dumps contain it separately.

XLA: {operation.name}.

Args:
    context: the result of the first half.

Returns:
    Nothing.

Raises:
    TransformError: always.

Example:
    >>> ops.{name}(None)
    Traceback (most recent call last):
        ...
    minixla.core.errors.TransformError: {name}: it has no builder...
"""
    return builder


send_done, recv_done = _second_half(SendDone, "send"), _second_half(RecvDone, "recv")
