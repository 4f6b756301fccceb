"""Instructions that only XLA's passes make: seen in dumps, read, printed and run, never built.

Here are those that stand alone; the halves of asynchronous operations are in `async_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

from minixla.core.attributes import (
    Enumeration,
    Instance,
    Integer,
    Integers,
    Optional,
    ShapeAttribute,
    Text,
)
from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.element_types import element_type
from minixla.core.errors import TransformError, explain
from minixla.core.forward import ForwardTrace, ForwardTracer
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, register
from minixla.core.shapes import TOKEN, AnyShape, Shape, TupleShape
from minixla.core.tracing import current_trace, shape_of, under
from minixla_ops.calls import Call, call
from minixla_ops.composed import Composed
from minixla_ops.composed import _program as program_of
from minixla_ops.conversion import bitcast_convert_type
from minixla_ops.evaluation import reference_graph
from minixla_ops.random_samples import next_state, rng_uniform
from minixla_ops.reshaping import reshape, transpose
from minixla_ops.rules import array_shape, splat

__all__ = [
    "Internal",
    "add_dependency",
    "bitcast",
    "copy",
    "domain",
    "fusion",
    "refusing",
    "rng_get_and_update_state",
]


class Internal(Composed):
    """Base class of the instructions that XLA makes itself.

    Their meaning is that of `composition`, which members give: every rule follows from it.
    Programs read from a dump hold them; their builders refuse.

    Declarations:
        instead: why users do not build it, and what to use.
    """

    instead: ClassVar[str]
    dynamic_operands = EVERY_OPERAND

    def reference(self, *operands: Any, **attributes: Any) -> Any:
        shapes = tuple(map(_shape_of_data, operands))
        (result,) = reference_graph(program_of(self, shapes, tuple(attributes.items())), operands)
        return result

    def stablehlo(
        self, emit: Any, operands: Any, shapes: Any, results: Any, /, **attributes: Any
    ) -> Sequence[str]:
        graph = program_of(self, tuple(shapes), tuple(attributes.items()))
        return emit.expand(graph, operands)

    def forward(
        self, primals: Sequence[Any], tangents: Sequence[Any], **attributes: Any
    ) -> tuple[Any, Any]:
        _, attributes = self.infer(tuple(map(shape_of, primals)), attributes)
        trace = ForwardTrace(current_trace())
        pairs = zip(primals, tangents, strict=True)
        mixed = [p if t is None else ForwardTracer(trace, p, t) for p, t in pairs]
        with under(trace):
            outputs = self.composition(*mixed, **attributes)
        return _split(outputs, trace, "tangent")

    def batch_within(
        self, trace: BatchTrace, operands: Any, dimensions: Any, **attributes: Any
    ) -> tuple[Any, Any]:
        pairs = zip(operands, dimensions, strict=True)
        mixed = [x if at is None else BatchTracer(trace, x, at) for x, at in pairs]
        with under(trace):
            outputs = self.composition(*mixed, **attributes)
        return _split(outputs, trace, "dimension")


def _split(outputs: Any, trace: Any, part: str) -> tuple[Any, Any]:
    """Values of the parent of `trace`, and what `trace` knows of them beside (None: nothing)."""
    several = outputs if type(outputs) is tuple else (outputs,)
    mine = [getattr(each, "_trace", None) is trace for each in several]
    values = [x.value if flag else x for x, flag in zip(several, mine, strict=True)]
    parts = [getattr(x, part) if flag else None for x, flag in zip(several, mine, strict=True)]
    return (tuple(values), tuple(parts)) if several is outputs else (values[0], parts[0])


def _shape_of_data(data: Any) -> AnyShape:
    """The shape of what a reference rule gets: an array, a tuple of such, or a token's None."""
    if data is None:
        return TOKEN
    if isinstance(data, tuple):
        return TupleShape(map(_shape_of_data, data))
    return Shape(element_type(data.dtype), data.shape)


def refusing(operation: type[Internal]) -> Callable[..., NoReturn]:
    """The builder function of an internal instruction, which says what to use instead."""
    name = operation.builder_name

    def builder(*operands: Any, **attributes: Any) -> NoReturn:
        raise explain(
            TransformError,
            name,
            f"{operation.hlo_name} is internal to XLA: its passes make it, programs do not",
            advice=operation.instead,
        )

    builder.__name__ = builder.__qualname__ = name
    builder.__doc__ = (
        f"Refuses: {operation.hlo_name} is internal to XLA. {operation.instead}\n\n"
        "Raises:\n    TransformError: always; programs read from a dump may hold it."
    )
    return builder


class Identity(Internal):
    """Base class of instructions whose result is their first operand."""

    def shape(self, operand: AnyShape, /, *others: AnyShape, **attributes: Any) -> AnyShape:
        return operand

    def composition(self, operand: Any, /, *others: Any, **attributes: Any) -> Any:
        return operand


@register
class Copy(Identity):
    """The operand, in memory of its own. XLA: Copy; passes may split it in CopyStart, CopyDone."""

    operand_names = ("operand",)
    instead = "Values do not change, so that a copy is the value itself: use that."


@register
class AddDependency(Identity):
    """The operand, which is there after the token. XLA: AddDependency.

    Checks:
        (C1) dependency is a token.
    """

    operand_names = ("operand", "dependency")
    instead = "Use optimization_barrier, or give tokens to the operations that are to be in order."

    def shape(self, operand: AnyShape, dependency: AnyShape, /) -> AnyShape:
        if dependency is not TOKEN:
            given = [f"operand {operand}", f"dependency {dependency}"]
            self.reject("C1", "dependency is not a token", given, "Give a token[].")
        return operand

    def stablehlo(self, emit: Any, operands: Any, shapes: Any, results: Any, /) -> Sequence[str]:
        names = emit.operation("stablehlo.optimization_barrier", operands, shapes, shapes)
        return names[:1]


@register
class Domain(Identity):
    """The operand, at a border between parts of a program that are sharded apart. XLA: Domain.

    Attributes:
        kind: of the border; XLA knows `sharding`.
        entry, exit: the sharding of what comes out and of the operand, in HLO's notation.
    """

    operand_names = ("operand",)
    attributes = {"kind": Text("sharding"), "entry": Text("{}"), "exit": Text("{}")}
    instead = "Say how values are sharded with mx.sharding; XLA finds the borders."

    def hlo_attributes(self, shapes: Any, /, *, kind: str, entry: str, exit: str) -> dict[str, Any]:
        return {"domain": f'{{kind="{kind}", entry={entry}, exit={exit}}}'}


@register
class Bitcast(Internal):
    """The bytes of the operand as an array of another shape. XLA: Bitcast.

    It reads memory, so that layouts matter: transposing and reshaping a bitcast may mean.

    Attributes:
        output_shape: the result's shape.
        operand_layout, result_layout: the dimensions from the fastest to the slowest in memory, as
            HLO's `{1,0}`; default: the last is the fastest.

    Checks:
        (C1) output_shape is a static array's of as many bits as the operand.
        (C2) each layout names every dimension once.
    """

    operand_names = ("operand",)
    attributes = {
        "output_shape": ShapeAttribute(),
        "operand_layout": Optional(Integers()),
        "result_layout": Optional(Integers()),
    }
    dynamic_operands = ()
    reads_bits = True
    instead = "Use reshape, transpose or bitcast_convert_type."

    def shape(
        self,
        operand: Any,
        /,
        *,
        output_shape: AnyShape,
        operand_layout: tuple[int, ...] | None,
        result_layout: tuple[int, ...] | None,
    ) -> Shape:
        (operand,) = self.array_shapes([operand])
        given = [f"operand {operand}", f"output_shape {output_shape}"]
        if (
            not isinstance(output_shape, Shape)
            or output_shape.is_dynamic
            or output_shape.size * output_shape.element_type.bits
            != operand.size * operand.element_type.bits
        ):
            self.reject_attribute(
                "C1", "the shapes differ in bits", given, "Both must take the same memory."
            )
        for layout, shape in ((operand_layout, operand), (result_layout, output_shape)):
            if layout is not None and sorted(layout) != list(range(shape.rank)):
                self.reject_attribute(
                    "C2",
                    f"{layout} is no layout of {shape}",
                    given,
                    "A layout names each dimension once, the fastest first.",
                )
        return output_shape

    def composition(
        self,
        operand: Any,
        /,
        *,
        output_shape: Shape,
        operand_layout: tuple[int, ...] | None,
        result_layout: tuple[int, ...] | None,
    ) -> Any:
        memory = operand if operand_layout is None else transpose(operand, operand_layout[::-1])
        kind, new = array_shape(operand).element_type, output_shape.element_type
        if kind is not new:
            count = max(new.bits // kind.bits, 1)
            size = array_shape(operand).size
            flat = (size,) if count == 1 else (size // count, count)
            memory = bitcast_convert_type(reshape(memory, flat), new)
        if result_layout is None:
            return reshape(memory, output_shape.dimensions)
        slowest = result_layout[::-1]
        physical = reshape(memory, [output_shape.dimensions[each] for each in slowest])
        return transpose(physical, sorted(range(len(slowest)), key=slowest.__getitem__))

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[Any],
        result: Any,
        /,
        *,
        output_shape: Shape,
        operand_layout: tuple[int, ...] | None,
        result_layout: tuple[int, ...] | None,
    ) -> str:
        # Printed shapes have the default layout: transposes stand for the others.
        (name,), (shape,) = operands, shapes
        if operand_layout is not None:
            order = operand_layout[::-1]
            turned = shape.with_dimensions([shape.dimensions[each] for each in order])
            name = emit.instruction("transpose", [name], turned, dimensions=order)
        if result_layout is None:
            return emit.instruction("bitcast", [name], result)
        order = result_layout[::-1]
        turned = result.with_dimensions([result.dimensions[each] for each in order])
        name = emit.instruction("bitcast", [name], turned)
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        return emit.instruction("transpose", [name], result, dimensions=back)


@register
class Fusion(Internal):
    """A computation that is compiled into one kernel. XLA: Fusion.

    It means what Call does.

    Attributes:
        computation: the Graph.
        kind: kLoop, kInput, kOutput or kCustom: how XLA makes the kernel.

    Checks:
        (C1), (C2) see Call.
    """

    operand_names = ("operands...",)
    attributes = {
        "computation": Instance(Graph),
        "kind": Enumeration("kLoop", "kInput", "kOutput", "kCustom", default="kLoop"),
    }
    instead = "Use call, or plain functions: XLA decides what it fuses."

    def shape(self, *operands: AnyShape, computation: Graph, kind: str) -> tuple[AnyShape, ...]:
        return Call(computation).shape(*operands)

    def reference(self, *operands: Any, computation: Graph, kind: str) -> tuple[Any, ...]:
        return tuple(reference_graph(computation, operands))

    def stablehlo(
        self,
        emit: Any,
        operands: Any,
        shapes: Any,
        results: Any,
        /,
        *,
        computation: Graph,
        kind: str,
    ) -> Sequence[str]:
        return Call(computation).stablehlo(emit, operands, shapes, results)

    def composition(self, *operands: Any, computation: Graph, kind: str) -> tuple[Any, ...]:
        return call(computation, *operands)

    def linearize(
        self, operands: Sequence[Any], active: Sequence[bool], *, computation: Graph, **_: Any
    ) -> tuple[Any, Callable[..., Any]]:
        return Call(computation).linearize(operands, active)

    def hlo_attributes(self, shapes: Any, /, *, computation: Graph, kind: str) -> dict[str, Any]:
        return {"kind": kind, "calls": computation}


@register
class RngGetAndUpdateState(Internal):
    """The state of XLA's own generator, which then moves on. XLA: RngGetAndUpdateState.

    XLA makes it of RngUniform and RngNormal. The reference keeps a counter of 128 bits for each
    thread, which `minixla.reference.seed` sets; StableHLO has random bits instead.

    Attributes:
        delta: how far the counter moves.
    """

    attributes = {"delta": Integer(minimum=0, default=1)}
    has_side_effect = True
    zero_derivative = "it has no operands"
    instead = "Use rng_bit_generator with a state of your own, or rng_uniform."

    def shape(self, *, delta: int) -> Shape:
        return _STATE

    def reference(self, *, delta: int) -> Any:
        return next_state(delta)

    def composition(self, *, delta: int) -> Any:
        scalar = Shape(_STATE.element_type)
        return rng_uniform(splat(0, scalar), splat(2**64 - 1, scalar), _STATE)


_STATE = Shape("u64", (2,))

add_dependency = refusing(AddDependency)
bitcast = refusing(Bitcast)
copy = refusing(Copy)
domain = refusing(Domain)
fusion = refusing(Fusion)
rng_get_and_update_state = refusing(RngGetAndUpdateState)
