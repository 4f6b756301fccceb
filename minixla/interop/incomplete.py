"""The incomplete gamma and beta functions, found in programs that JAX wrote for them.

JAX lowers each to some hundred operations around loops, and StableHLO keeps no name of it. At the
ends of the domain these choose constants, whose derivatives are not the function's, and in reverse
0 meets infinity.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from minixla.core.attributes import Integers, attribute
from minixla.core.derived import jvp_graph
from minixla.core.element_types import F32, F64, element_type
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import REGISTRY, register
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla.interop import module as modules
from minixla.interop.reading import read_module
from minixla.interop.step import Step
from minixla_ops import exp, lgamma, log, log1p, select
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.elementwise.operators import power
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.vocabulary.casting import cast
from minixla_ops.vocabulary.shorthand import add_cotangents, full_like, ones_like, zeros_like


class _Incomplete(Elementwise):
    """Base class: a function of parameters and, as the last operand, x.

    The derivative by x is the integrand. That by a parameter is the program's inside of the domain,
    and 0 at its ends, where the function does not depend on the parameters. It is computed forwards
    in both modes, as each element depends on that of each operand alone.

    Attributes:
        by: the operands by which it is differentiated, in order.
    """

    spec_names = ()
    by: tuple[int, ...] = attribute(Integers(0), default=())
    element_types = frozenset((F32, F64))
    #: JAX's function.
    function: ClassVar[Callable[..., Any]]
    #: The ends of the domain, and a point inside of it.
    ends: ClassVar[tuple[float, float]]
    inside: ClassVar[float]
    #: Whether JAX has a derivative by the first parameter, for which its loops end later.
    has_slope = False

    def reference(self, *operands):
        graph = _derived(type(self), Shape(F64, operands[0].shape), self.by)
        with np.errstate(all="ignore"):
            result = reference_graph(graph, [cast(each, F64) for each in operands])[0]
        return cast(result, element_type(operands[0].dtype))

    def stablehlo(self, emit, operands, shapes, results):
        (shape,) = self.array_shapes(results)
        return emit.expand(_derived(type(self), shape, self.by), operands)

    def jvp(self, primals, tangents, results):
        # The same expressions in both modes; NaN where the function is.
        total, last = None, len(primals) - 1
        for number, tangent in enumerate(tangents):
            if tangent is not None:
                is_known = number == last and not self.by
                slope = self.integrand(*primals) if is_known else self._inside(primals, number)
                nan = full_like(slope, math.nan)
                slope = REGISTRY["Undefined"]()(results != results, nan, slope)
                total = add_cotangents(total, tangent * slope)
        return total

    def _inside(self, primals: Sequence[Any], number: int) -> Any:
        """The program's derivative by an operand inside of the domain; 0 at its ends."""
        *parameters, x = primals
        is_end = (x == self.ends[0]) | (x == self.ends[1])
        x = select(is_end, full_like(x, self.inside), x)
        slope = self(*parameters, x, by=(*self.by, number))
        return select(is_end, zeros_like(slope), slope)

    def integrand(self, *primals: Any) -> Any:
        """The derivative by x."""
        raise self.lacks("integrand")


@register
class Igamma(_Incomplete):
    """The regularised lower incomplete gamma function P(a, x)."""

    operands = ("a", "x")
    function = staticmethod(lax.igamma)
    ends, inside = (0, math.inf), 1
    has_slope = True

    def integrand(self, a: Any, x: Any) -> Any:
        """x**(a - 1) exp(-x) / gamma(a)."""
        is_zero, is_far = x == 0, x == math.inf
        between = select(is_zero | is_far, ones_like(x), x)
        # The power may overflow where exp(-x) is small.
        inner = exp((a - 1) * log(between) - between - lgamma(a))
        near = select(is_zero, x, ones_like(x))
        outer = power(near, a - 1) * exp(-near - lgamma(a))
        return select(is_zero, outer, select(is_far, zeros_like(x), inner))


@register
class Igammac(Igamma):
    """The regularised upper incomplete gamma function Q(a, x)."""

    function = staticmethod(lax.igammac)

    def integrand(self, a: Any, x: Any) -> Any:
        """That of Igamma, negative."""
        return -super().integrand(a, x)


@register
class Betainc(_Incomplete):
    """The regularised incomplete beta function I(a, b, x)."""

    operands = ("a", "b", "x")
    function = staticmethod(lax.betainc)
    ends, inside = (0, 1), 0.5

    def integrand(self, a: Any, b: Any, x: Any) -> Any:
        """x**(a - 1) (1 - x)**(b - 1) / beta(a, b)."""
        is_end = (x == 0) | (x == 1)
        half = full_like(x, 0.5)
        far = full_like(x, math.inf)
        log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
        log_beta = select((a == math.inf) | (b == math.inf), far, log_beta)
        between, end = select(is_end, half, x), select(is_end, x, half)
        inner = exp((a - 1) * log(between) + (b - 1) * log1p(-between) - log_beta)
        outer = power(end, a - 1) * power(1 - end, b - 1) * exp(-log_beta)
        return select(is_end, outer, inner)


# Loops are not more steps than this from results.
_FARTHEST = 12


@lru_cache(maxsize=1024)
def _written(kind: type[_Incomplete], shape: Shape, wide: bool, is_slope: bool = False) -> Graph:
    """What JAX writes for a function, or its slope; with 32-bit counters where they may be."""

    def slope(first: Any, *others: Any) -> Any:
        one = (jnp.ones_like(first),)
        return jax.jvp(lambda x: kind.function(x, *others), (first,), one)[1]

    with jax.enable_x64(wide):
        given = jax.ShapeDtypeStruct(shape.dimensions, shape.dtype)
        lowered = jax.jit(slope if is_slope else kind.function).lower(*[given] * len(kind.operands))
    module = modules.Module(read_module(lowered.as_text()))
    module.recognises = False
    return module.translated()["main"].pruned()


@lru_cache(maxsize=1024)
def _derived(kind: type[_Incomplete], shape: Shape, by: tuple[int, ...]) -> Graph:
    """The program of a derivative."""
    if not by or (by == (0,) and kind.has_slope):
        return _written(kind, shape, shape.element_type is F64, bool(by))
    *before, number = by
    inner = _derived(kind, shape, tuple(before))
    active = tuple([each == number for each in range(len(inner.inputs))])
    graph = jvp_graph(inner, active).graph

    def function(*operands: Any) -> Any:
        return evaluate_graph(graph, [*operands, ones_like(operands[number])])[-1]

    return closed_graph(function, inner.input_shapes, kind.builder_name).pruned()


def translated_select(step: Step) -> Sequence[Value]:
    """stablehlo.select: Undefined where one of the values is the constant NaN, else Select.

    What is undefined outside of a domain may be one of the incomplete functions.
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
    """One of the functions in place of the choice between it and NaN; others as they are."""
    shape = result.shape
    if not step.module.recognises or not isinstance(shape, Shape) or shape.is_dynamic:
        return result
    if shape.element_type not in (F32, F64) or not _may_be_one(result):
        return result
    for kind, wide in product((Igamma, Igammac, Betainc), (False, True)):
        if wide or shape.element_type is not F64:
            found = _matched(_written(kind, shape, wide), result)
            if found is not None:
                operands, steps = found
                step.builder.folded.update(map(id, steps))
                return step.builder.apply(kind(), operands)[0]
    return result


def _may_be_one(result: Value) -> bool:
    """Whether there is another choice next to that of NaN, and a loop near, as in all of these.

    To ask JAX for the programs takes time.
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
    """The operands for which `result` is computed as by `program`, and the steps that do so."""
    found: dict[Value, Value] = {}
    steps: list[Instruction] = []
    waiting = [(program.outputs[0], result)]
    while waiting:
        wanted, value = waiting.pop()
        mine, other, is_new = wanted.instruction, value.instruction, wanted not in found
        if found.setdefault(wanted, value) is not value:
            return None
        if mine is None or not is_new:
            continue
        if other is None or wanted.index != value.index:
            return None
        # Records of equal programs are two.
        if type(mine.op) is not type(other.op) or mine.op.values != other.op.values:
            return None
        if len(mine.operands) != len(other.operands):
            return None
        steps.append(other)
        waiting.extend(zip(mine.operands, other.operands, strict=True))
    return [found[value] for value in program.inputs], steps
