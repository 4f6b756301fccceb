"""Send and Recv: values from one program to another, or to and from the host, by channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from minixla.core.attributes import Boolean, Integer, ShapeAttribute
from minixla.core.errors import TransformError, explain
from minixla.core.operation import Operation, register
from minixla.core.processes import current_process
from minixla.core.shapes import TOKEN, AnyShape, Shape, TupleShape
from minixla.core.tracing import bind, shape_of
from minixla_ops.collective_groups import channel_text
from minixla_ops.rules import zeros
from minixla_ops.transfers import Transfer, create_token
from minixla_ops.tuples import tuple as make_tuple

__all__ = ["recv", "recv_done", "recv_to_host", "recv_with_tokens"]
__all__ += ["send", "send_done", "send_to_host", "send_with_tokens"]

_REQUEST = Shape("u32")
_ATTRIBUTES = {"channel_id": Integer(minimum=1), "is_host_transfer": Boolean(False)}
# Of channels in StableHLO.
_BETWEEN_DEVICES, _TO_HOST, _FROM_HOST = 1, 2, 3


class _ByChannel(Transfer):
    """Base class of the two that start a transfer; they give a context for the one that ends it.

    The context is the tuple of the data, the number of the request and a token.
    """

    no_derivative = (
        "values go one way between programs: a transpose would need a transfer the other way"
    )

    def channel(self, channel_id: int, is_host_transfer: bool, host: int) -> dict[str, Any]:
        """The attributes in StableHLO, where `host` is the channel's type if it has the host."""
        kind = host if is_host_transfer else _BETWEEN_DEVICES
        texts = {"channel_handle": channel_text(channel_id, kind)}
        return {**texts, "is_host_transfer": is_host_transfer}

    def require_host(self, emit: Any, is_host_transfer: bool) -> None:
        """Raises TransformError where the program is to run, but the other end is not the host."""
        if emit.calls_host and not is_host_transfer:
            raise explain(
                TransformError,
                self.builder_name,
                "JAX runs one program on all devices, and it has nobody to meet on a channel",
                advice="Run the programs of all processes together with mx.simulate; between the "
                "devices of one program use collective_permute, or mx.ppermute.",
            )

    def context_text(self, emit: Any, data: str, token: str, context: AnyShape) -> list[str]:
        """Writes the context; nobody reads the number of its request."""
        assert isinstance(context, TupleShape)
        request = emit.name()
        emit.line(f"{request} = stablehlo.constant dense<0> : {_REQUEST.stablehlo}")
        parts = [data, request, token]
        return emit.operation("stablehlo.tuple", parts, context.elements, [context])

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        *,
        channel_id: int,
        is_host_transfer: bool,
        **others: Any,
    ) -> str:
        inputs = self.hlo_token(emit, operands, shapes)
        texts = {"channel_id": channel_id, "is_host_transfer": is_host_transfer or None}
        return emit.instruction(self.hlo_name, inputs, result, **texts)


@register
class Send(_ByChannel):
    """Starts to send a value to the Recv of the channel, in another program. XLA: Send.

    The value is taken by the first Recv of another process on the channel. SendWithTokens and
    SendToHost are Send with a token, and to the host.

    Attributes:
        channel_id: the channel.
        is_host_transfer: whether the host is at the other end.

    Checks:
        (C1) the operand is an array, and a token may follow.
    """

    spec_names = ("Send", "SendWithTokens", "SendToHost")
    stablehlo_name = "send"
    operand_names = ("operand", "token...")
    data_count = 1
    attributes = _ATTRIBUTES

    def shape(self, *operands: AnyShape, channel_id: int, is_host_transfer: bool) -> TupleShape:
        (data,), _ = self.split("C1", operands)
        return TupleShape([data, _REQUEST, TOKEN])

    def reference(
        self, operand: np.ndarray, *token: Any, channel_id: int, is_host_transfer: bool
    ) -> Any:
        request = current_process().start_send(channel_id, np.array(operand), is_host_transfer)
        return operand, np.asarray(request, np.uint32), None

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        channel_id: int,
        is_host_transfer: bool,
    ) -> Sequence[str]:
        attributes = self.channel(channel_id, is_host_transfer, _TO_HOST)

        def at_host(value: Any) -> Sequence[Any]:
            current_process().start_send(channel_id, value, to_host=True)
            return ()

        self.require_host(emit, is_host_transfer)
        _, token, _ = self.emit_transfer(emit, operands, shapes, (), at_host, **attributes)
        return self.context_text(emit, operands[0], token, results[0])

    def send_member(self, operands: Sequence[Any], **attributes: Any) -> Any:
        done = _finished(bind(self, *operands, **attributes), **attributes)
        return done if len(operands) > 1 else None

    def batched_result(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], token: Any
    ) -> Any:
        # All members are sent: what ends the transfer finds request 0, that of nobody.
        if token is None:
            token = operands[1] if len(operands) > 1 else create_token()
        return make_tuple([operands[0], zeros(_REQUEST), token]), (dimensions[0], None, None)


@register
class SendDone(Operation):
    """Waits until what a Send started has been taken. XLA: SendDone.

    Attributes:
        channel_id, is_host_transfer: those of the Send.

    Checks:
        (C1) the operand is the context of a Send.
    """

    operand_names = ("context",)
    stablehlo_name = "get_tuple_element"
    attributes = _ATTRIBUTES
    has_side_effect = True
    zero_derivative = "a token holds no numbers"

    def shape(self, context: AnyShape, /, **attributes: Any) -> AnyShape:
        _data_of_context(self, context)
        return TOKEN

    def reference(self, context: Any, /, **attributes: Any) -> Any:
        if context[1]:
            current_process().finish_send(int(context[1]))

    def stablehlo(
        self, emit: Any, operands: Any, shapes: Any, results: Any, /, **attributes: Any
    ) -> Any:
        return _member_text(emit, operands, shapes, 2)

    def hlo_attributes(self, shapes: Any, **attributes: Any) -> dict[str, Any]:
        return _done_texts(**attributes)

    def batch(self, operands: Sequence[Any], dimensions: Any, /, **attributes: Any) -> Any:
        return bind(self, *operands, **attributes), None


@register
class Recv(_ByChannel):
    """Starts to receive a value from the Send of the channel, in another program. XLA: Recv.

    The value is that of the first Send of another process on the channel. RecvWithTokens and
    RecvToHost (which receives from the host) are Recv with a token, and from the host.

    Attributes:
        output_shape: the shape of the value.
        channel_id: the channel.
        is_host_transfer: whether the host is at the other end.

    Checks:
        (C1) at most one operand, a token.
        (C2) the shape is an array's.
    """

    spec_names = ("Recv", "RecvWithTokens", "RecvToHost")
    stablehlo_name = "recv"
    operand_names = ("token...",)
    attributes = {"output_shape": ShapeAttribute(), **_ATTRIBUTES}
    missing_rules = {"batch": "every member of a batch gets the one value: no operand is batched"}
    batch = Operation.batch

    def shape(self, *token: AnyShape, output_shape: AnyShape, **attributes: Any) -> TupleShape:
        self.split("C1", token)
        if not isinstance(output_shape, Shape):
            given = [f"shape {output_shape}"]
            self.reject_attribute("C2", "the shape is not an array's", given, "Receive arrays.")
        return TupleShape([output_shape, _REQUEST, TOKEN])

    def reference(
        self, *token: Any, output_shape: Shape, channel_id: int, is_host_transfer: bool
    ) -> Any:
        request = current_process().start_receive(channel_id, is_host_transfer)
        buffer = np.zeros(output_shape.dimensions, output_shape.dtype)
        return buffer, np.asarray(request, np.uint32), None

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        output_shape: Shape,
        channel_id: int,
        is_host_transfer: bool,
    ) -> Sequence[str]:
        attributes = self.channel(channel_id, is_host_transfer, _FROM_HOST)

        def at_host() -> Sequence[Any]:
            process = current_process()
            return (process.finish_receive(process.start_receive(channel_id, from_host=True)),)

        self.require_host(emit, is_host_transfer)
        (data,), token, _ = self.emit_transfer(
            emit, operands, shapes, [output_shape], at_host, **attributes
        )
        return self.context_text(emit, data, token, results[0])


@register
class RecvDone(Operation):
    """Waits for what a Recv started to receive, and gives it and a token. XLA: RecvDone.

    Attributes:
        channel_id, is_host_transfer: those of the Recv.

    Checks:
        (C1) the operand is the context of a Recv.
        (C2) when it runs: the value has the shape that the Recv said.
    """

    operand_names = ("context",)
    stablehlo_name = "get_tuple_element"
    attributes = _ATTRIBUTES
    has_side_effect = True
    no_derivative = _ByChannel.no_derivative
    missing_rules = {"batch": Recv.missing_rules["batch"]}

    def shape(self, context: AnyShape, /, **attributes: Any) -> Any:
        return _data_of_context(self, context), TOKEN

    def reference(self, context: Any, /, channel_id: int, **attributes: Any) -> Any:
        value, buffer = current_process().finish_receive(int(context[1])), context[0]
        value = np.asarray(value)
        if (value.dtype, value.shape) != (buffer.dtype, buffer.shape):
            given = [
                f"sent {value.dtype}{list(value.shape)}",
                f"to be received {buffer.dtype}{list(buffer.shape)}",
                f"channel {channel_id}",
            ]
            self.reject("C2", "the value has another shape", given, "Both ends must agree.")
        return value, None

    def stablehlo(
        self, emit: Any, operands: Any, shapes: Any, results: Any, /, **attributes: Any
    ) -> Any:
        return [_member_text(emit, operands, shapes, index)[0] for index in (0, 2)]

    def hlo_attributes(self, shapes: Any, **attributes: Any) -> dict[str, Any]:
        return _done_texts(**attributes)


def _data_of_context(operation: Operation, context: AnyShape) -> Shape:
    """The shape of the data, after check C1."""
    elements = context.elements if isinstance(context, TupleShape) else ()
    if (
        len(elements) != 3
        or elements[1:] != (_REQUEST, TOKEN)
        or not isinstance(elements[0], Shape)
    ):
        problem = "the operand is not the context of a transfer"
        operation.reject("C1", problem, [f"context {context}"], "Give what Send or Recv gave.")
    return elements[0]


def _member_text(emit: Any, operands: Any, shapes: Any, index: int) -> Any:
    wanted = [shapes[0].elements[index]]
    name = "stablehlo.get_tuple_element"
    return emit.operation(name, operands, shapes, wanted, index=f"{index} : i32")


def _done_texts(channel_id: int, is_host_transfer: bool) -> dict[str, Any]:
    return {"channel_id": channel_id, "is_host_transfer": is_host_transfer or None}


def _finished(context: Any, **attributes: Any) -> Any:
    return bind(SendDone.instance, context, **attributes)


def _send(operand: Any, handle: int, token: Any, is_host_transfer: bool = False) -> Any:
    tokens = () if token is None else (token,)
    attributes = {"channel_id": handle, "is_host_transfer": is_host_transfer}
    done = _finished(bind(Send.instance, operand, *tokens, **attributes), **attributes)
    return None if token is None else done


def _recv(shape: Shape, handle: int, token: Any, is_host_transfer: bool = False) -> Any:
    tokens = () if token is None else (token,)
    attributes = {"channel_id": handle, "is_host_transfer": is_host_transfer}
    context = bind(Recv.instance, *tokens, output_shape=shape, **attributes)
    done = bind(RecvDone.instance, context, **attributes)
    return done[0] if token is None else done


def send(operand: Any, handle: int, token: Any = None) -> Any:
    """Sends to the recv of the channel in another program, and waits until it has been taken.

    It is Send and SendDone.

    Args:
        operand: an array.
        handle: the channel.
        token: what it comes after; default: the side effects before it.

    Returns:
        None, or with `token` a token.

    Raises:
        ShapeError: see Send.
    """
    return _send(operand, handle, token)


def recv(shape: Shape, handle: int, token: Any = None) -> Any:
    """The value that the send of the channel in another program sends.

    It is Recv and RecvDone.

    Args:
        shape: its shape.
        handle: the channel.
        token: what it comes after; default: the side effects before it.

    Returns:
        The value, and with `token` a pair of that and a token.

    Raises:
        AttributeValueError: see Recv.
    """
    return _recv(shape, handle, token)


def send_with_tokens(operand: Any, token: Any, handle: int) -> Any:
    """`send` after `token`; returns a token."""
    return _send(operand, handle, token)


def recv_with_tokens(token: Any, shape: Shape, handle: int) -> tuple[Any, Any]:
    """`recv` after `token`; returns the value and a token."""
    return _recv(shape, handle, token)


def send_to_host(operand: Any, token: Any, shape_with_layout: Shape | None, handle: int) -> Any:
    """Sends to the host on a channel, after `token`; returns a token.

    Args:
        operand: an array.
        token: what it comes after.
        shape_with_layout: the operand's shape; None: that.
        handle: the channel.

    Raises:
        ShapeError: `shape_with_layout` is another shape.
    """
    if shape_with_layout is not None and shape_with_layout is not shape_of(operand):
        given = [f"operand {shape_of(operand)}", f"shape_with_layout {shape_with_layout}"]
        advice = "Give the operand's own shape, or None."
        Send.instance.reject("C1", "shape_with_layout is not the operand's", given, advice)
    return _send(operand, handle, token, True)


def recv_to_host(token: Any, shape: Shape, handle: int) -> tuple[Any, Any]:
    """Receives *from* the host on a channel, after `token`; returns the value and a token.

    XLA's page has the name RecvToHost; the builder's method is RecvFromHost.

    Args:
        token: what it comes after.
        shape: the value's shape.
        handle: the channel.

    Raises:
        AttributeValueError: see Recv.
    """
    return _recv(shape, handle, token, True)


def _refuse(name: str, start: str) -> NoReturn:
    raise explain(
        TransformError,
        name,
        "it is not built by itself",
        advice=f"The context that it takes belongs to {start}, which waits as well: XLA splits "
        f"that call in two. Call ops.{start}.",
    )


def send_done(context: Any) -> Any:
    """Refuses: `send` waits by itself; the second half stands in dumps alone.

    Raises:
        TransformError: always.
    """
    _refuse("send_done", "send")


def recv_done(context: Any) -> Any:
    """Refuses: `recv` waits by itself; the second half stands in dumps alone.

    Raises:
        TransformError: always.
    """
    _refuse("recv_done", "recv")
