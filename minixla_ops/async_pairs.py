"""The halves of asynchronous operations, as they are in dumps: starts give what dones take.

A start holds operands and result together: `(operand, result, ...)`. It computes at once here; the
rest of the pair takes the result out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minixla.core.attributes import Instance, Text
from minixla.core.graph import Graph
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.core.tracing import bind
from minixla_ops.calls import Call, call
from minixla_ops.collective_passing import CollectivePermute
from minixla_ops.collective_reductions import AllReduce
from minixla_ops.collectives import AllGather
from minixla_ops.dump_only import Identity, Internal, refusing
from minixla_ops.rules import splat
from minixla_ops.tuples import get_tuple_element, tuple

__all__ = [
    "all_gather_done",
    "all_gather_start",
    "all_reduce_done",
    "all_reduce_start",
    "async_done",
    "async_start",
    "async_update",
    "collective_permute_done",
    "collective_permute_start",
    "copy_done",
    "copy_start",
]


class Done(Internal):
    """Base class of the second halves: what the start computed.

    Class arguments:
        start: the first half's class.
        index: where the result is in what it gives.

    Checks:
        (C1) the operand is of the shape that the first half gives.
    """

    operand_names = ("start",)
    start: ClassVar[type[_Start]]
    index: ClassVar[int]

    def __init_subclass__(cls, start: type[_Start], index: int) -> None:
        super().__init_subclass__()
        cls.start, cls.index, cls.instead = start, index, start.instead

    def shape(self, start: Any, /) -> AnyShape:
        if not isinstance(start, TupleShape) or not self.start.gives(start):
            self.reject(
                "C1",
                f"the operand is not what {self.start.hlo_name} gives",
                [f"start {start}"],
                f"It is the second half of {self.start.hlo_name}.",
            )
        return start.elements[self.index]

    def composition(self, start: Any, /) -> Any:
        return get_tuple_element(start, self.index)


_CONTEXT = Shape("u32")


class _Start(Internal):
    """Base class of the first halves."""

    operand_names = ("operand",)

    @classmethod
    def gives(cls, shape: TupleShape) -> bool:
        """Whether a tuple has as many members, of such kinds, as the instruction gives."""
        return len(shape.elements) == 2


@register
class CopyStart(_Start):
    """The copy, the operand and a context: the first half of Copy. XLA: CopyStart."""

    instead = "Values do not change, so that a copy is the value itself: use that."

    def shape(self, operand: AnyShape, /) -> TupleShape:
        return TupleShape([operand, operand, _CONTEXT])

    def composition(self, operand: Any, /) -> Any:
        return tuple([operand, operand, splat(0, _CONTEXT)])

    @classmethod
    def gives(cls, shape: TupleShape) -> bool:
        members = shape.elements
        return len(members) == 3 and members[0] is members[1] and members[2] is _CONTEXT


@register
class CopyDone(Done, start=CopyStart, index=0):
    """The copy: the second half of Copy. XLA: CopyDone.

    Checks:
        (C1) see Done.
    """


class _StartOf(_Start):
    """Base class of the first halves of collectives: (operand, result).

    Class arguments:
        whole: the collective, whose attributes and checks it has.
    """

    whole: ClassVar[type[Operation]]

    def __init_subclass__(cls, whole: type[Operation]) -> None:
        super().__init_subclass__()
        cls.whole, cls.attributes = whole, whole.attributes
        cls.instead = f"Use {whole.builder_name}: XLA makes it asynchronous where that pays."

    def shape(self, operand: AnyShape, /, **attributes: Any) -> AnyShape:
        result, _ = self.whole.instance.infer((operand,), attributes)
        return TupleShape([operand, result])

    def composition(self, operand: Any, /, **attributes: Any) -> Any:
        return tuple([operand, bind(self.whole.instance, operand, **attributes)])

    def hlo_attributes(self, shapes: Sequence[AnyShape], /, **attributes: Any) -> dict[str, Any]:
        return self.whole.instance.hlo_attributes(shapes, **attributes)


@register
class AllGatherStart(_StartOf, whole=AllGather):
    """The operand and what is gathered: the first half of AllGather. XLA: AllGatherStart."""


@register
class AllGatherDone(Done, start=AllGatherStart, index=1):
    """What is gathered: the second half of AllGather. XLA: AllGatherDone.

    Checks:
        (C1) see Done.
    """


@register
class CollectivePermuteStart(_StartOf, whole=CollectivePermute):
    """Operand and what came: the first half of CollectivePermute. XLA: CollectivePermuteStart."""


@register
class CollectivePermuteDone(Done, start=CollectivePermuteStart, index=1):
    """What came: the second half of CollectivePermute. XLA: CollectivePermuteDone.

    Checks:
        (C1) see Done.
    """


@register
class AllReduceStart(_StartOf, whole=AllReduce):
    """The reduced operand, in no tuple: the first half of AllReduce. XLA: AllReduceStart."""

    def shape(self, operand: AnyShape, /, **attributes: Any) -> AnyShape:
        return self.whole.instance.infer((operand,), attributes)[0]  # type: ignore[return-value]

    def composition(self, operand: Any, /, **attributes: Any) -> Any:
        return bind(self.whole.instance, operand, **attributes)


@register
class AllReduceDone(Identity):
    """The reduced operand: the second half of AllReduce. XLA: AllReduceDone."""

    operand_names = ("start",)
    instead = AllReduceStart.instead


@register
class AsyncStart(_Start):
    """Operands, result and a context of a computation. XLA: AsyncStart.

    Attributes:
        computation: the Graph, of one result.
        async_execution_thread: where XLA runs it.

    Checks:
        (C1), (C2) see Call.
        (C3) the computation has one result (or a tuple).
    """

    operand_names = ("operands...",)
    attributes = {"computation": Instance(Graph), "async_execution_thread": Text("main")}
    instead = "Use call: XLA decides what runs asynchronously."

    def shape(
        self, *operands: AnyShape, computation: Graph, async_execution_thread: str
    ) -> TupleShape:
        results = Call(computation).shape(*operands)
        if len(results) != 1:
            self.reject_attribute(
                "C3",
                f"the computation has {len(results)} results",
                [repr(computation)],
                "Give a computation of one result, which may be a tuple.",
            )
        return TupleShape([TupleShape(operands), *results, Shape("s32")])

    def composition(self, *operands: Any, computation: Graph, async_execution_thread: str) -> Any:
        (result,) = call(computation, *operands)
        return tuple([tuple(operands), result, splat(0, Shape("s32"))])

    def hlo_attributes(
        self, shapes: Any, /, *, computation: Graph, async_execution_thread: str
    ) -> dict[str, Any]:
        thread = None if async_execution_thread == "main" else f'"{async_execution_thread}"'
        return {"async_execution_thread": thread, "calls": computation}

    @classmethod
    def gives(cls, shape: TupleShape) -> bool:
        members = shape.elements
        return len(members) >= 2 and isinstance(members[0], TupleShape)


@register
class AsyncUpdate(Identity):
    """What it is given, of a computation that is under way. XLA: AsyncUpdate.

    Checks:
        (C1) the operand is of the shape that AsyncStart gives.
    """

    operand_names = ("start",)
    instead = AsyncStart.instead

    def shape(self, start: Any, /) -> AnyShape:
        AsyncDone.instance.shape(start)
        return start


@register
class AsyncDone(Done, start=AsyncStart, index=1):
    """The result of the computation. XLA: AsyncDone.

    Checks:
        (C1) see Done.
    """


all_gather_done = refusing(AllGatherDone)
all_gather_start = refusing(AllGatherStart)
all_reduce_done = refusing(AllReduceDone)
all_reduce_start = refusing(AllReduceStart)
async_done = refusing(AsyncDone)
async_start = refusing(AsyncStart)
async_update = refusing(AsyncUpdate)
collective_permute_done = refusing(CollectivePermuteDone)
collective_permute_start = refusing(CollectivePermuteStart)
copy_done = refusing(CopyDone)
copy_start = refusing(CopyStart)
