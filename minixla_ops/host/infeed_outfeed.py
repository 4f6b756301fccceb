"""Infeed and Outfeed: queues for data exchange between a device and its host."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core import register, shape_of
from minixla.core.attributes import ShapeAttribute, Text, attribute
from minixla.core.builders import builds
from minixla.core.hlo_text import quoted as hlo_quoted
from minixla.core.shapes import TOKEN, AnyShape, Shape, TupleShape, TupleValue, shape_of_data
from minixla.core.stablehlo_text import quoted
from minixla.typing import ArrayLike
from minixla_ops.collectives.processes import current_process
from minixla_ops.helpers.shorthand import as_tuple
from minixla_ops.helpers.tuple_operations import tuple_leaves
from minixla_ops.host.transfers import Outgoing, Transfer, optional


class _Config(Text):
    """A string for the backend."""

    def stablehlo(self, value: str) -> str:
        return quoted(value)

    def hlo(self, value: str) -> str | None:
        return hlo_quoted(value) if value else None


@register
class Infeed(Transfer):
    """Read the next item of the device's infeed. XLA: Infeed, InfeedWithToken.

    An empty tuple reads nothing.

    Args:
        shape: the shape of the item, an array or a tuple of arrays.
        config: a string for the backend.
        token: a token that the read follows; default: the previous side effects.

    Returns:
        A value of `shape`; with `token`, a pair of the value and a token.

    Checks:
        (C1) the shape is an array shape or a tuple of array shapes; nested tuples are not
             supported.
        (C2) there is at most one operand, a token.
        (C3) when it runs: the item has the expected shape.

    Raises:
        DeadlockError: when it runs, the infeed is empty; see `mx.transfer_to_infeed`.

    Example:
        >>> read = lambda: ops.infeed(mx.Shape("f32", (2,)))
        >>> mx.simulate(read, [[()]], infeed=[np.float32([1, 2])])
        [[array([1., 2.], dtype=float32)]]
    """

    stablehlo_name = "infeed"
    operands = ("token...",)
    output_shape: AnyShape = attribute(ShapeAttribute(), stablehlo=None, hlo=None)
    infeed_config: str = attribute(_Config(), default="")
    zero_derivative = "the item does not depend on operands"
    missing_rules = {"batch": "all batch elements read the same item: operands are not batched"}

    def shape(self, *token):
        if not all(isinstance(shape, Shape) for shape in self.received()):
            self.refuse_attribute(
                "C1", "nested tuples are not supported", "Pass a tuple of array shapes."
            )
        _, has_token = self.split("C2", token)
        return (self.output_shape, TOKEN) if has_token else self.output_shape

    def reference(self, *token):
        leaves = self.received()
        item = current_process().next_infeed() if leaves else ()
        is_tuple = isinstance(self.output_shape, TupleShape)
        values = item if is_tuple and isinstance(item, tuple) else (item,)
        shapes = tuple(map(shape_of_data, values))
        if shapes != leaves or isinstance(item, tuple) != is_tuple:
            self.refuse(
                "C3", f"the shape of the item must match; got ({', '.join(map(str, shapes))})"
            )
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
def infeed(shape: AnyShape, config: str = "", token: object = None) -> Any:
    return Infeed(shape, config)(*optional(token))


@register
class Outfeed(Outgoing):
    """Write an array, or a tuple of arrays, to the device's outfeed. XLA: Outfeed.

    It has no result, or a token if it gets a token.

    Args:
        operand: an array, or a tuple or list of arrays.
        shape_with_layout: the operand's shape, the default. Layouts are ignored.
        outfeed_config: a string for the backend.
        token: a token that the write follows; default: the previous side effects.

    Returns:
        None; with `token`, a token.

    Checks:
        (C1) the operands are arrays, except for at most one token at the end.
        (C2) shape_with_layout is the shape of the operand.

    Example:
        >>> written = []
        >>> mx.simulate(ops.outfeed, [[(np.float32([1, 2]),)]], outfeed=written)
        [[None]]
        >>> written
        [[[array([1., 2.], dtype=float32)]]]
    """

    stablehlo_name = "outfeed"
    operands = ("operands...",)
    data_count = None
    shape_with_layout: AnyShape = attribute(ShapeAttribute(), stablehlo=None, hlo="outfeed_shape")
    outfeed_config: str = attribute(_Config(), default="")
    zero_derivative = "its results do not depend on its operands"

    def shape(self, *operands):
        data, has_token = self.split("C1", operands)
        if tuple(data) != _leaf_shapes(self.shape_with_layout):
            advice = "Pass the operand's shape, or None."
            self.refuse("C2", "shape_with_layout must be the operand's shape", advice)
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
    operand: ArrayLike | Sequence[ArrayLike],
    shape_with_layout: AnyShape | None = None,
    outfeed_config: str = "",
    token: object = None,
) -> Any:
    whole = TupleValue(operand) if isinstance(operand, (list, tuple)) else operand
    shape = shape_of(whole) if shape_with_layout is None else shape_with_layout
    result = Outfeed(shape, outfeed_config)(*tuple_leaves(whole), *optional(token))
    return None if token is None else result
