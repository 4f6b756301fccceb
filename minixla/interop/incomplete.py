"""Recognition of the incomplete gamma and beta functions in programs that JAX lowered.

JAX lowers each to some hundred operations around loops, and StableHLO does not keep its name. At
the ends of the domain these choose constants, whose derivatives are not the function's. In reverse
mode, 0 is multiplied by infinity.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from minixla.core.derived import jvp_graph
from minixla.core.element_types import F32, F64
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla.interop.reading import read_module
from minixla.interop.step import Step
from minixla_ops.elementwise.incomplete import Betainc, Igamma, Igammac, Incomplete
from minixla_ops.helpers.shorthand import ones_like

# The largest number of steps between loops and results.
_FARTHEST = 12


@lru_cache(maxsize=1024)
def _written(kind: type[Incomplete], shape: Shape, wide: bool, is_slope: bool = False) -> Graph:
    """Return JAX's program for a function, or its slope; with 32-bit counters if possible."""
    from minixla.interop.module import Module  # it imports the table of this file

    function = getattr(lax, kind.builder_name)

    def slope(first: Any, *others: Any) -> Any:
        one = (jnp.ones_like(first),)
        return jax.jvp(lambda x: function(x, *others), (first,), one)[1]

    with jax.enable_x64(wide):
        struct = jax.ShapeDtypeStruct(shape.dimensions, shape.dtype)
        lowered = jax.jit(slope if is_slope else function).lower(*[struct] * len(kind.operands))
    module = Module(read_module(lowered.as_text()))
    module.recognises = False
    return module.translated()["main"].pruned()


@lru_cache(maxsize=1024)
def program(kind: type[Incomplete], shape: Shape, by: tuple[int, ...]) -> Graph:
    """Return the program of a derivative; JAX has one for the first parameter with longer loops."""
    if not by or (by == (0,) and issubclass(kind, Igamma)):
        return _written(kind, shape, shape.element_type is F64, bool(by))
    *before, number = by
    inner = program(kind, shape, tuple(before))
    active = tuple([index == number for index in range(len(inner.inputs))])
    graph = jvp_graph(inner, active).graph

    def function(*operands: Any) -> Any:
        return evaluate_graph(graph, [*operands, ones_like(operands[number])])[-1]

    return closed_graph(function, inner.input_shapes, kind.builder_name).pruned()


def translated_select(step: Step) -> Sequence[Value]:
    """Translate a select: Undefined if one of the values is the constant NaN, else Select.

    A function that is undefined outside of a domain may be one of the incomplete functions.
    """
    shape = step.operands[1].shape
    is_inexact = isinstance(shape, Shape) and shape.element_type.is_inexact
    if not is_inexact or not any(map(_is_nan, step.operands[1:])):
        return step.apply("Select")
    return [_recognised(step, step.apply("Undefined")[0])]


def _is_nan(value: Value) -> bool:
    instruction = value.instruction
    if instruction is None:
        return False
    if instruction.op.name in ("Broadcast", "BroadcastInDim"):
        return _is_nan(instruction.operands[0])
    literal = value.literal
    return literal is not None and literal.is_splat and bool(np.isnan(literal.scalar))


def _recognised(step: Step, result: Value) -> Value:
    """Return an incomplete function in place of its selection with NaN; keep other values."""
    shape = result.shape
    if not step.module.recognises or not isinstance(shape, Shape) or shape.is_dynamic:
        return result
    if shape.element_type not in (F32, F64) or not _may_be_one(result):
        return result
    for kind, wide in product((Igamma, Igammac, Betainc), (False, True)):
        if wide or shape.element_type is not F64:
            matched = _matched(_written(kind, shape, wide), result)
            if matched is not None:
                operands, steps = matched
                step.builder.folded.update(map(id, steps))
                return step.builder.apply(kind(), operands)[0]
    return result


def _may_be_one(result: Value) -> bool:
    """Test whether another selection and a loop are near, as in all of these functions.

    This saves the time of lowering JAX's programs.
    """
    assert result.instruction is not None
    level = [result]
    chosen = [value.instruction for value in result.instruction.operands[1:]]
    if not any(step is not None and step.op.name == "Select" for step in chosen):
        return False
    for _ in range(_FARTHEST):
        steps = [value.instruction for value in level if value.instruction is not None]
        if any(step.op.name == "While" for step in steps):
            return True
        level = list({id(value): value for step in steps for value in step.operands}.values())
    return False


def _matched(program: Graph, result: Value) -> tuple[list[Value], list[Instruction]] | None:
    """Return the operands for which `program` computes `result`, and the steps that do so."""
    matches: dict[Value, Value] = {}
    steps: list[Instruction] = []
    waiting = [(program.outputs[0], result)]
    while waiting:
        wanted, value = waiting.pop()
        mine, other, is_new = wanted.instruction, value.instruction, wanted not in matches
        if matches.setdefault(wanted, value) is not value:
            return None
        if mine is None or not is_new:
            continue
        if other is None or wanted.index != value.index:
            return None
        # Records of equal programs are not identical.
        if type(mine.op) is not type(other.op) or mine.op.values != other.op.values:
            return None
        if len(mine.operands) != len(other.operands):
            return None
        steps.append(other)
        waiting.extend(zip(mine.operands, other.operands, strict=True))
    return [matches[value] for value in program.inputs], steps
