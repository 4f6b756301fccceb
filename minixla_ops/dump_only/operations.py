"""Instructions that only XLA's passes create: they are read from dumps, printed and run.

This module has single instructions; the halves of asynchronous operations are in `async_pairs`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

import minixla_ops as ops
from minixla.core import TOKEN, Graph, Shape, attributes, current_trace, under
from minixla.core.attributes import Instance, Integer, Integers, ShapeAttribute, Text, attribute
from minixla.core.batching import BatchTracer
from minixla.core.builders import derived
from minixla.core.errors import ImportError_, TransformError, explain
from minixla.core.forward import ForwardTrace, ForwardTracer
from minixla.core.operation import EVERY_OPERAND, register
from minixla.typing import Array
from minixla_ops.helpers.shorthand import array_shape, as_tuple, splat
from minixla_ops.programs.call import Call
from minixla_ops.programs.lowering import Lowered
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import CallsProgram
from minixla_ops.random.random_samples import next_state


class Internal(Lowered):
    """Base class of XLA's internal instructions: all rules follow from `composition`.

    Programs read from a dump may contain them; their builders raise an error.
    """

    #: The reason why users do not build it, and the alternative.
    instead: ClassVar[str]
    dynamic_operands = EVERY_OPERAND
    only_arrays = False
    in_place = True

    def forward(self, primals, tangents):
        tracer = partial(ForwardTracer, ForwardTrace(current_trace()))
        return self._within(tracer, primals, tangents)

    def batch_within(self, trace, operands, dimensions):
        return self._within(partial(BatchTracer, trace), operands, dimensions)

    def _within(
        self, tracer: partial[Any], operands: Sequence[Array], known: Sequence[object]
    ) -> tuple[Any, Any]:
        """Return the results for the parent of a tracer's trace, with their knowledge or None."""
        pairs, (trace,) = zip(operands, known, strict=True), tracer.args
        with under(trace):
            outputs = self.lowered(*[x if p is None else tracer(x, p) for x, p in pairs])
        results = as_tuple(outputs)
        parts = [(x.value, x.known) if trace.is_own(x) else (x, None) for x in results]
        values, carried = map(tuple, zip(*parts, strict=True))
        return (values, carried) if type(outputs) is tuple else parts[0]


def refusing(operation: type[Internal]) -> Callable[..., NoReturn]:
    """Return the builder of an internal instruction: an error that names the alternative."""
    name = operation.builder_name

    def builder(*operands: object, **attributes: object) -> NoReturn:
        problem = f"{operation.hlo_name} is internal to XLA: only its passes create it"
        raise explain(TransformError, name, problem, advice=operation.instead)

    builder = derived(operation, builder)
    builder.__doc__ = (
        f"Raise an error: {operation.hlo_name} is internal to XLA. {operation.instead}\n\n"
        f"XLA: {operation.name}.\n\n"
        "Args:\n    *operands, **attributes: any values.\n\nReturns:\n    Nothing.\n\n"
        "Raises:\n    TransformError: always; only programs read from a dump may contain it.\n\n"
        f"Example:\n    >>> ops.{name}()\n    Traceback (most recent call last):\n        ...\n"
        f"    minixla.core.errors.TransformError: {name}: ..."
    )
    return builder


class Identity(Internal):
    """Base class of instructions that return their first operand."""

    def shape(self, operand, *others):
        return operand

    def lowered(self, operand, *others):
        return operand


@register
class Copy(Identity):
    """Copy the operand to other memory. XLA: Copy; passes may split it in CopyStart, CopyDone."""

    operands = ("operand",)
    instead = "Values are immutable, so use the value itself."


@register
class AddDependency(Identity):
    """Return the operand after the token. XLA: AddDependency.

    Checks:
        (C1) dependency is a token.
    """

    operands = "operand", "dependency"
    instead = "Use optimization_barrier, or pass tokens to the operations to order them."

    def shape(self, operand, dependency):
        if dependency is not TOKEN:
            self.refuse("C1", "dependency must be a token")
        return operand

    def stablehlo(self, emit, operands, shapes, results):
        return emit.operation("stablehlo.optimization_barrier", operands, shapes, shapes)[:1]


@register
class Domain(Identity):
    """Mark a border between parts of a program with different shardings. XLA: Domain.

    Attributes:
        kind: the kind of border; XLA uses `sharding`.
        entry, exit: the shardings of the result and of the operand, in HLO's notation.
    """

    operands = ("operand",)
    kind: str = attribute(Text(), default="sharding")
    entry: str = attribute(Text(), default="{}")
    exit: str = attribute(Text(), default="{}")
    instead = "Shard values with mx.sharding; XLA finds the borders."

    def hlo_attributes(self, shapes):
        return {"domain": f'{{kind="{self.kind}", entry={self.entry}, exit={self.exit}}}'}


@register
class Bitcast(Internal):
    """Reinterpret the bytes of the operand as an array with another shape. XLA: Bitcast.

    It depends on memory layouts: a bitcast can express transposes and reshapes.

    Attributes:
        output_shape: the shape of the result.
        operand_layout, result_layout: the dimensions from the fastest to the slowest in memory,
            like HLO's `{1,0}`; default: the last is the fastest.

    Checks:
        (C1) output_shape is a static array shape with as many bits as the operand.
        (C2) each layout lists every dimension once, the fastest first.
    """

    operands = ("operand",)
    output_shape: Shape = attribute(ShapeAttribute())
    operand_layout: tuple[int, ...] | None = attribute(Integers(), default=None)
    result_layout: tuple[int, ...] | None = attribute(Integers(), default=None)
    dynamic_operands = ()
    only_arrays = True
    instead = "Use reshape, transpose or bitcast_convert_type."

    def shape(self, operand):
        result = self.output_shape
        bits = operand.size * operand.element_type.bits
        is_static = isinstance(result, Shape) and not result.is_dynamic
        if not is_static or result.size * result.element_type.bits != bits:
            self.refuse_attribute("C1", "the shapes must have equal numbers of bits")
        for layout, shape in ((self.operand_layout, operand), (self.result_layout, result)):
            if layout is not None and sorted(layout) != list(range(shape.rank)):
                self.refuse_attribute("C2", f"{layout} is not a layout of {shape}")
        return result

    def lowered(self, operand):
        memory, result = operand, self.output_shape
        if self.operand_layout is not None:
            memory = ops.transpose(operand, self.operand_layout[::-1])
        shape, new = array_shape(operand), result.element_type
        if shape.element_type is not new:
            count, size = max(new.bits // shape.element_type.bits, 1), shape.size
            flat = (size,) if count == 1 else (size // count, count)
            memory = ops.bitcast_convert_type(ops.reshape(memory, flat), new)
        if self.result_layout is None:
            return ops.reshape(memory, result.dimensions)
        slowest = self.result_layout[::-1]
        physical = ops.reshape(memory, _turned(result, slowest).dimensions)
        return ops.transpose(physical, _inverse(slowest))

    def hlo(self, emit, operands, shapes, result):
        # Printed shapes have the default layout; transposes express other layouts.
        (name,), (shape,) = operands, shapes
        if self.operand_layout is not None:
            order = self.operand_layout[::-1]
            name = emit.instruction("transpose", [name], _turned(shape, order), dimensions=order)
        if self.result_layout is None:
            return emit.instruction("bitcast", [name], result)
        order = self.result_layout[::-1]
        name = emit.instruction("bitcast", [name], _turned(result, order))
        return emit.instruction("transpose", [name], result, dimensions=_inverse(order))


def _turned(shape: Shape, order: Sequence[int]) -> Shape:
    return shape.with_dimensions([shape.dimensions[dimension] for dimension in order])


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


_KINDS = "kLoop", "kInput", "kOutput", "kCustom"


@register
class Fusion(Internal, CallsProgram):
    """Run a computation that is compiled into one kernel. XLA: Fusion.

    It has the meaning of Call.

    Attributes:
        kind: kLoop, kInput, kOutput or kCustom: how XLA generates the kernel.
        computation: the Graph.

    Checks:
        (C1), (C2) see Call.
    """

    operands = ("operands...",)
    computation: Graph = attribute(Instance(Graph), hlo="calls")
    kind: str = attribute(attributes.Enumeration(*_KINDS), default="kLoop")
    instead = "Use call, or plain functions: XLA decides what to fuse."

    def shape(self, *operands):
        return Call(self.computation).infer(operands)

    def reference(self, *operands):
        return tuple(reference_graph(self.computation, operands))

    def lowered(self, *operands):
        return ops.call(self.computation, *operands)

    def linearize(self, operands, active):
        return Call(self.computation).linearize(operands, active)


@register
class RngGetAndUpdateState(Internal):
    """Return the state of XLA's random generator and advance it. XLA: RngGetAndUpdateState.

    XLA creates it from RngUniform and RngNormal. The reference keeps a 128-bit counter for each
    thread, which `minixla.reference_evaluator.seed` sets. StableHLO uses random bits instead.

    Attributes:
        delta: the increment of the counter.
    """

    delta: int = attribute(Integer(minimum=0), default=1)
    has_side_effect = True
    zero_derivative = "it has no operands"
    instead = "Use rng_bit_generator with an explicit state, or rng_uniform."

    def shape(self):
        return Shape("u64", (2,))

    def reference(self):
        return next_state(self.delta)

    def lowered(self):
        low, high = (splat(limit, Shape("u64")) for limit in (0, 2**64 - 1))
        return ops.rng_uniform(low, high, self.shape())


@register
class ElidedConstant(Internal):
    """A constant that a dump shows as `constant({...})`: its value is unknown.

    Programs that contain it can be read, printed and drawn; using its value raises an error.

    Attributes:
        output_shape: the shape of the constant.
        label, line: its name and its line in the text.
    """

    spec_names = ()
    hlo_name = "constant"
    output_shape: Shape = attribute(ShapeAttribute(), stablehlo=None)
    label: str = attribute(Text())
    line: int = attribute(Integer())
    zero_derivative = "it has no operands"

    def shape(self):
        return self.output_shape

    def lowered(self):
        problem = f"line {self.line}: the text omits the value of the constant {self.label}"
        how = "compiler_ir('hlo').as_hlo_text(True), --xla_dump_large_constants"
        advice = f"Print the program with its large constants ({how}), and import this text."
        details = [f"{self.label} = constant({{...}})"]
        raise explain(ImportError_, "import_hlo", problem, details, advice)

    def hlo(self, emit, operands, shapes, result):
        return emit.instruction("constant", ["{...}"], result)
