"""Infeed and Outfeed, tokens (AfterAll), and what they share with Send and Recv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from minixla.core.attributes import ShapeAttribute, Text
from minixla.core.operation import Operation, register
from minixla.core.processes import current_process
from minixla.core.shapes import TOKEN, AnyShape, Shape, TupleShape, shape_of_data
from minixla.core.stablehlo_text import quoted
from minixla.core.tracing import bind, shape_of
from minixla.core.tuples import TupleValue
from minixla_ops.batching import batch_member, batch_size
from minixla_ops.rules import operand_list
from minixla_ops.tuples import tuple_leaves

__all__ = ["Transfer", "after_all", "create_token", "infeed", "outfeed"]


@register
class AfterAll(Operation):
    """A token that comes after all its operands; of none, a new one. XLA: AfterAll, CreateToken.

    Checks:
        (C1) the operands are tokens.
    """

    stablehlo_name = "after_all"
    operand_names = ("tokens...",)
    zero_derivative = "tokens hold no numbers"
    missing_rules = {"batch": "tokens have no batch"}

    def shape(self, *tokens: AnyShape) -> AnyShape:
        if any(token is not TOKEN for token in tokens):
            given = [f"tokens[{index}] {token}" for index, token in enumerate(tokens)]
            self.reject(
                "C1", "an operand is not a token", given, "Give what `token=` calls return."
            )
        return TOKEN

    def reference(self, *tokens: Any) -> Any:
        return None


def after_all(tokens: Sequence[Any]) -> Any:
    """A token after which comes what comes after all of `tokens`.

    Raises:
        ShapeError: see AfterAll.
    """
    return bind(AfterAll.instance, *operand_list(tokens, "after_all", "tokens"))


def create_token() -> Any:
    """A token that comes after nothing: AfterAll of none."""
    return after_all(())


class Transfer(Operation):
    """Base class: moves data in or out, in order with other side effects.

    The last operand may be a token, that orders the call after another; a token then is the last
    result too. Without, the order is that of the program's text.
    """

    has_side_effect = True
    #: How many operands stand before the token; None: any number.
    data_count: ClassVar[int | None] = 0

    def split(self, label: str, operands: Sequence[AnyShape]) -> tuple[list[Shape], bool]:
        """The shapes of the data, and whether a token follows; rejects others for check `label`."""
        given = [f"operand {index}: {shape}" for index, shape in enumerate(operands)]
        has_token = bool(operands) and operands[-1] is TOKEN
        data = list(operands[:-1] if has_token else operands)
        wrong = self.data_count not in (None, len(data))
        if wrong or not all(isinstance(shape, Shape) for shape in data):
            advice = "Give arrays, and at most one token, by `token=`."
            self.reject(label, "an operand is neither data nor its token", given, advice)
        return data, has_token  # type: ignore[return-value]  # each is a Shape

    def emit_transfer(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        received: Sequence[AnyShape],
        at_host: Callable[..., Sequence[Any]],
        **attributes: Any,
    ) -> tuple[list[str], str, bool]:
        """Writes the operation; returns the data, the token, and whether that is a result.

        Args:
            emit: what writes it.
            operands: SSA names.
            shapes: their shapes.
            received: the shapes of the data that comes in.
            at_host: what the host does, where the program runs in its process: from the data that
                goes out to that which comes in.
            attributes: those of the StableHLO operation.
        """
        has_token = bool(shapes) and shapes[-1] is TOKEN
        if emit.calls_host:
            return self._call_host(emit, operands, shapes, received, at_host, has_token)
        if not has_token:
            operands, shapes = [*operands, emit.take_token()], [*shapes, TOKEN]
        outcome = [*received, TOKEN]
        name = f"stablehlo.{self.stablehlo_name}"
        *data, token = emit.operation(name, operands, shapes, outcome, **attributes)
        if not has_token:
            emit.give_token([token])
        return data, token, has_token

    def _call_host(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        received: Sequence[AnyShape],
        at_host: Callable[..., Sequence[Any]],
        has_token: bool,
    ) -> tuple[list[str], str, bool]:
        if not has_token:
            data = emit.host_call(at_host, operands, shapes, received, True)
            return data, emit.take_token(), False
        before = emit.take_token()
        emit.give_token(operands[-1:])
        data = emit.host_call(at_host, operands[:-1], shapes[:-1], received, True)
        token = emit.take_token()
        emit.give_token([before])
        return data, token, True

    def hlo_token(
        self, emit: Any, operands: Sequence[str], shapes: Sequence[AnyShape]
    ) -> list[str]:
        """The operands in HLO, where a token is always the last."""
        if shapes and shapes[-1] is TOKEN:
            return list(operands)
        return [*operands, emit.instruction("after-all", [], TOKEN)]

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> Any:
        """The members one after the other; only data that goes out is batched."""
        token = None
        for index in range(batch_size(operands, dimensions)):
            member = [
                batch_member(o, at, index) for o, at in zip(operands, dimensions, strict=True)
            ]
            if token is not None:
                member[-1] = token
            token = self.send_member(member, **attributes)
        return self.batched_result(operands, dimensions, token)

    def send_member(self, operands: Sequence[Any], **attributes: Any) -> Any:
        """Sends what a batch has for one member; returns the token, or None where it has none."""
        result = bind(self, *operands, **attributes)
        return None if type(result) is tuple else result

    def batched_result(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], token: Any
    ) -> Any:
        """The results, and where their batch is, for the last token."""
        if shape_of(operands[-1]) is not TOKEN:
            return (), ()
        return operands[-1] if token is None else token, None


@register
class Infeed(Transfer):
    """Reads the next item of the device's infeed. XLA: Infeed, InfeedWithToken.

    An empty tuple reads nothing.

    Attributes:
        output_shape: the shape of the item, an array or a tuple of arrays.
        infeed_config: a string for the backend.

    Checks:
        (C1) the shape is an array's or that of a tuple of arrays; nested tuples are not supported.
        (C2) at most one operand, a token.
        (C3) when it runs: the item has that shape.
    """

    stablehlo_name = "infeed"
    operand_names = ("token...",)
    attributes = {"output_shape": ShapeAttribute(), "infeed_config": Text("")}
    zero_derivative = "what it reads depends on no operand"
    missing_rules = {"batch": "every member of a batch reads the one item: no operand is batched"}
    batch = Operation.batch

    def shape(self, *token: AnyShape, output_shape: AnyShape, infeed_config: str) -> Any:
        if not all(isinstance(each, Shape) for each in _leaf_shapes(output_shape)):
            given = [f"shape {output_shape}"]
            self.reject_attribute("C1", "the shape is nested", given, "Give a tuple of arrays.")
        _, has_token = self.split("C2", token)
        return (output_shape, TOKEN) if has_token else output_shape

    def reference(self, *token: Any, output_shape: AnyShape, infeed_config: str) -> Any:
        leaves = _leaf_shapes(output_shape)
        item = current_process().next_infeed() if leaves else ()
        is_tuple = isinstance(output_shape, TupleShape)
        values = item if is_tuple and isinstance(item, tuple) else (item,)
        shapes = tuple(map(shape_of_data, values))
        if shapes != leaves or isinstance(item, tuple) != is_tuple:
            given = [f"item {tuple(map(str, shapes))}", f"shape {output_shape}"]
            advice = "Items must be of the shapes and element types that the program reads."
            self.reject("C3", "the item has another shape", given, advice)
        arrays = tuple(
            [np.asarray(each).astype(s.dtype) for each, s in zip(values, leaves, strict=True)]  # type: ignore[union-attr]
        )
        data = arrays if is_tuple else arrays[0]
        return (data, None) if token else data

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        output_shape: AnyShape,
        infeed_config: str,
    ) -> Sequence[str]:
        leaves = _leaf_shapes(output_shape)
        config = quoted(infeed_config)

        def at_host() -> Sequence[Any]:
            data = self.reference(output_shape=output_shape, infeed_config=infeed_config)
            return data if isinstance(output_shape, TupleShape) else (data,)

        data, token, has_token = self.emit_transfer(
            emit, operands, shapes, leaves, at_host, infeed_config=config
        )
        if isinstance(output_shape, TupleShape):
            data = emit.operation("stablehlo.tuple", data, leaves, [output_shape])
        return [*data, token] if has_token else data

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        *,
        output_shape: AnyShape,
        infeed_config: str,
    ) -> str:
        inputs, both = self.hlo_token(emit, operands, shapes), TupleShape([output_shape, TOKEN])
        config = quoted(infeed_config) if infeed_config else None
        name = emit.instruction("infeed", inputs, both, infeed_config=config)
        if result is both:
            return name
        return emit.instruction("get-tuple-element", [name], output_shape, index=0)


def _leaf_shapes(shape: AnyShape) -> tuple[AnyShape, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def infeed(shape: AnyShape, config: str = "", token: Any = None) -> Any:
    """The next item of the infeed.

    Args:
        shape: its shape, an array's or a tuple's.
        config: a string for the backend.
        token: what the reading comes after; default: the side effects before it.

    Returns:
        A value of `shape`, and with `token` a pair of that and a token.

    Raises:
        ShapeError, AttributeValueError: see Infeed.
        DeadlockError: when it runs, there is no item left: see `mx.transfer_to_infeed`.
    """
    tokens = () if token is None else (token,)
    return bind(Infeed.instance, *tokens, output_shape=shape, infeed_config=config)


@register
class Outfeed(Transfer):
    """Writes an array, or a tuple of arrays, to the device's outfeed. XLA: Outfeed.

    Its results are none, or a token where it was given one.

    Attributes:
        shape_with_layout: the shape of what is written; a layout has no effect on it.
        outfeed_config: a string for the backend.

    Checks:
        (C1) the operands are arrays, and at most one token, the last.
        (C2) shape_with_layout is the shape of what is written.
    """

    stablehlo_name = "outfeed"
    operand_names = ("operands...",)
    data_count = None
    attributes = {"shape_with_layout": ShapeAttribute(), "outfeed_config": Text("")}
    zero_derivative = "nothing that it gives back depends on its operands"

    def shape(self, *operands: AnyShape, shape_with_layout: AnyShape, outfeed_config: str) -> Any:
        data, has_token = self.split("C1", operands)
        if tuple(data) != _leaf_shapes(shape_with_layout):
            given = [f"operand ({', '.join(map(str, data))})", f"shape {shape_with_layout}"]
            advice = "Give the operand's own shape, or none."
            self.reject("C2", "shape_with_layout is not the operand's shape", given, advice)
        return TOKEN if has_token else ()

    def reference(self, *operands: Any, shape_with_layout: AnyShape, outfeed_config: str) -> Any:
        count = len(_leaf_shapes(shape_with_layout))
        arrays = tuple([np.array(each) for each in operands[:count]])
        is_tuple = isinstance(shape_with_layout, TupleShape)
        current_process().put_outfeed(arrays if is_tuple else arrays[0])
        return None if len(operands) > count else ()

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        *_: Any,
        shape_with_layout: AnyShape,
        outfeed_config: str,
    ) -> Sequence[str]:
        config = quoted(outfeed_config)
        rest = {"shape_with_layout": shape_with_layout, "outfeed_config": outfeed_config}

        def at_host(*arrays: Any) -> Sequence[Any]:
            return self.reference(*arrays, **rest)

        transfer = self.emit_transfer(emit, operands, shapes, (), at_host, outfeed_config=config)
        token, has_token = transfer[1:]
        return [token] if has_token else []

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        *,
        shape_with_layout: AnyShape,
        outfeed_config: str,
    ) -> str:
        inputs = self.hlo_token(emit, operands, shapes)
        if isinstance(shape_with_layout, TupleShape):
            data = emit.instruction("tuple", inputs[:-1], shape_with_layout)
            inputs = [data, inputs[-1]]
        texts = {"outfeed_config": quoted(outfeed_config) if outfeed_config else None}
        return emit.instruction("outfeed", inputs, TOKEN, outfeed_shape=shape_with_layout, **texts)


def outfeed(
    operand: Any,
    shape_with_layout: AnyShape | None = None,
    outfeed_config: str = "",
    token: Any = None,
) -> Any:
    """Writes to the outfeed.

    Args:
        operand: an array, or a tuple or list of arrays.
        shape_with_layout: the operand's shape; default: that.
        outfeed_config: a string for the backend.
        token: what the writing comes after; default: the side effects before it.

    Returns:
        None, or with `token` a token.

    Raises:
        ShapeError: see Outfeed.
    """
    if isinstance(operand, (list, tuple)):
        operand = TupleValue(operand)
    leaves = tuple_leaves(operand) if isinstance(shape_of(operand), TupleShape) else [operand]
    tokens = () if token is None else (token,)
    result = bind(
        Outfeed.instance,
        *leaves,
        *tokens,
        shape_with_layout=shape_of(operand) if shape_with_layout is None else shape_with_layout,
        outfeed_config=outfeed_config,
    )
    return None if token is None else result
