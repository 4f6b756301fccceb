"""The halves of asynchronous operations in dumps: a done returns the result of its start.

A start returns a tuple `(operand, result, ...)`. It computes immediately here; the other half takes
the result from the tuple.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import minixla_ops as ops
from minixla.core import REGISTRY, Graph, Operation, Shape, TupleShape, register
from minixla.core.attributes import Instance, Text, attribute
from minixla.core.hlo_text import quoted
from minixla_ops.collectives.collective_joins import AllGather
from minixla_ops.collectives.collective_passing import CollectivePermute
from minixla_ops.collectives.collective_reductions import AllReduce
from minixla_ops.dump_only.operations import Copy, Identity, Internal, refusing
from minixla_ops.helpers.shorthand import splat
from minixla_ops.programs.call import Call


class Done(Internal):
    """Base class of second halves: element `index` of the tuple that `start` returns.

    Checks:
        (C1) the operand has the shape that the first half returns.
    """

    operands = ("start",)
    start: ClassVar[type[_Start]]
    index: ClassVar[int]

    def __init_subclass__(cls, start: type[_Start], index: int) -> None:
        super().__init_subclass__()
        cls.start, cls.index, cls.instead = start, index, start.instead

    def shape(self, start):
        if not isinstance(start, TupleShape) or not self.start.gives(start):
            first = self.start.hlo_name
            problem = f"the operand must be the result of {first}"
            self.refuse("C1", problem, f"It is the second half of {first}.")
        return start.elements[self.index]

    def lowered(self, start):
        return ops.get_tuple_element(start, self.index)


class _Start(Internal):
    """Base class of first halves."""

    operands = ("operand",)

    @classmethod
    def gives(cls, shape: TupleShape) -> bool:
        """Return whether a tuple has the number and types of elements that the start returns."""
        return len(shape.elements) == 2


@register
class CopyStart(_Start):
    """First half of Copy: the copy, the operand and a context. XLA: CopyStart."""

    instead = Copy.instead

    def shape(self, operand):
        return TupleShape([operand, operand, Shape("u32")])

    def lowered(self, operand):
        return ops.tuple([operand, operand, splat(0, Shape("u32"))])

    @classmethod
    def gives(cls, shape: TupleShape) -> bool:
        return shape is TupleShape([*shape.elements[:1] * 2, Shape("u32")])


@register
class CopyDone(Done, start=CopyStart, index=0):
    """Second half of Copy: the copy. XLA: CopyDone."""


class _StartOf(_Start):
    """Base class of the first halves of collectives; each has the attributes of `whole`."""

    whole: ClassVar[type[Operation]]

    def __init_subclass__(cls, whole: type[Operation]) -> None:
        for name, field in whole.fields.items():
            setattr(cls, name, field)
        super().__init_subclass__()
        cls.whole = whole
        cls.instead = f"Use {whole.builder_name}: XLA makes it asynchronous if that is faster."

    @property
    def collective(self) -> Any:
        """The collective that it starts."""
        return self.whole(*self.values.values())

    def shape(self, operand):
        return TupleShape([operand, self.collective.infer((operand,))])

    def lowered(self, operand):
        return ops.tuple([operand, self.collective(operand)])

    def hlo_attributes(self, shapes):
        return self.collective.hlo_attributes(shapes)


@register
class AllGatherStart(_StartOf, whole=AllGather):
    """First half of AllGather: the operand and the gathered array. XLA: AllGatherStart."""


@register
class AllGatherDone(Done, start=AllGatherStart, index=1):
    """Second half of AllGather: the gathered array. XLA: AllGatherDone."""


@register
class CollectivePermuteStart(_StartOf, whole=CollectivePermute):
    """First half of CollectivePermute: operand and result. XLA: CollectivePermuteStart."""


@register
class CollectivePermuteDone(Done, start=CollectivePermuteStart, index=1):
    """Second half of CollectivePermute: the result. XLA: CollectivePermuteDone."""


@register
class AllReduceStart(_StartOf, whole=AllReduce):
    """First half of AllReduce: the reduced operand, not in a tuple. XLA: AllReduceStart."""

    def shape(self, operand):
        return self.collective.infer((operand,))

    def lowered(self, operand):
        return self.collective(operand)


@register
class AllReduceDone(Identity):
    """Second half of AllReduce: the reduced operand. XLA: AllReduceDone."""

    operands = ("start",)
    instead = AllReduceStart.instead


class _Thread(Text):
    def hlo(self, value: str) -> str | None:
        return None if value == "main" else quoted(value)


@register
class AsyncStart(_Start):
    """Start a computation: operands, result and a context. XLA: AsyncStart.

    Attributes:
        computation: the Graph, with one result.
        async_execution_thread: the thread on which XLA runs it.

    Checks:
        (C1), (C2) see Call.
        (C3) the computation has one result, which may be a tuple.
    """

    operands = ("operands...",)
    computation: Graph = attribute(Instance(Graph), hlo="calls")
    async_execution_thread: str = attribute(_Thread(), default="main")
    instead = "Use call: XLA decides what runs asynchronously."

    def shape(self, *operands):
        results: Any = Call(self.computation).infer(operands)
        if len(results) != 1:
            self.refuse_attribute("C3", f"the computation must have one result, not {len(results)}")
        return TupleShape([TupleShape(operands), *results, Shape("s32")])

    def lowered(self, *operands):
        (result,) = ops.call(self.computation, *operands)
        return ops.tuple([ops.tuple(operands), result, splat(0, Shape("s32"))])

    @classmethod
    def gives(cls, shape: TupleShape) -> bool:
        members = shape.elements
        return len(members) >= 2 and isinstance(members[0], TupleShape)


@register
class AsyncUpdate(Identity):
    """Return its operand, the state of a running computation. XLA: AsyncUpdate.

    Checks:
        (C1) the operand has the shape that AsyncStart returns.
    """

    operands = ("start",)
    instead = AsyncStart.instead

    def shape(self, start):
        AsyncDone().infer((start,))
        return start


@register
class AsyncDone(Done, start=AsyncStart, index=1):
    """Return the result of the computation. XLA: AsyncDone."""


#: Functions that make the builders of instructions that only XLA creates, by builder name.
BUILDERS = {
    operation.builder_name: partial(refusing, operation)
    for operation in REGISTRY.values()
    if issubclass(operation, Internal) and hasattr(operation, "instead")
}
