"""Primitives that stay one operation, lowered for each platform, with JAX's rules or our own."""

from collections.abc import Sequence
from typing import Any

import jax

from minixla.bridge.passing import bound_at
from minixla.bridge.platforms import PORTABLE, lowering_platform
from minixla.bridge.values import operand, result, results, shape_of_aval
from minixla.core.attributes import Attribute, attribute
from minixla.core.errors import DerivativeError, UnsupportedError, explain
from minixla.core.state import state
from minixla.core.tracing import under
from minixla.engine import jax_private as private
from minixla_ops.programs.call import Call
from minixla_ops.programs.runs_programs import RunsPrograms


class _WithRules(RunsPrograms):
    """A primitive that uses JAX's own JVP, transpose and batching rules.

    They run under the current trace, which turns the primitives that they bind into operations.
    """

    operands, dynamic_operands = Call.operands, Call.dynamic_operands
    of: Any = attribute(Attribute(), hlo=None)

    def _as_jax(self, operands: Sequence[Any], avals: Sequence[Any] | None = None) -> list[Any]:
        return results(state.trace, operands, avals or self.of.in_avals)

    def _without_rule(self, what: str) -> Exception:
        problem = f"JAX's primitive {self.of.primitive.name} has no {what}"
        advice = "Define a rule for the enclosing function (mx.custom_jvp, mx.custom_vjp), or use "
        advice += "mx.stop_gradient."
        return explain(DerivativeError, self.of.primitive.name, problem, advice=advice)

    def forward(self, primals, tangents):
        of, values = self.of, self._as_jax(primals)
        moving = [zero_of(p) if t is None else t for p, t in zip(values, tangents, strict=True)]
        if of.primitive in private.primitive_jvps:
            outputs, moved = private.primitive_jvps[of.primitive](values, moving, **of.params)
        elif of.primitive in private.primitive_linearizations:
            rule = private.primitive_linearizations[of.primitive]
            flags = [tangent is not None for tangent in tangents]
            outputs, _, residuals, linear = rule(False, flags, *values, **of.params)
            moved = linear(residuals, *moving)
        else:
            raise self._without_rule("derivative")
        return tuple(map(operand, of.listed(outputs))), tuple(map(or_none, of.listed(moved)))

    linearize = None  # reverse mode transposes the jvp rule

    def dependent(self, variables):
        return [has_tangent(aval) for aval in self.of.out_avals]

    def enter(self, trace, operands):
        with under(trace.parent):
            return self(*map(trace.instantiated, operands))

    def transpose(self, cotangents, operands, linear):
        of, primitive = self.of, self.of.primitive
        rows = zip(operands, of.in_avals, linear, strict=True)
        values = [
            private.UndefinedPrimal(a) if flag else result(state.trace, x, a) for x, a, flag in rows
        ]
        pairs = zip(cotangents, of.out_avals, strict=True)
        cts = [private.Zero(a.to_ct_aval()) if c is None else c for c, a in pairs]
        ct = cts if primitive.multiple_results else cts[0]
        if primitive in private.fancy_transposes:
            sums = [
                private.ValAccum(x.aval.to_ct_aval()) if private.is_undefined_primal(x) else x
                for x in values
            ]
            private.fancy_transposes[primitive](ct, *sums, **of.params)
            return [or_none(x.freeze()) if isinstance(x, private.ValAccum) else None for x in sums]
        rule = private.primitive_transposes.get(primitive)
        if rule is None:
            raise self._without_rule("transpose")
        gradients = rule(ct, *values, **of.params)
        return [or_none(x) if flag else None for x, flag in zip(gradients, linear, strict=True)]

    def batch_of(self, size, operands, dimensions, **_):
        of, primitive, at = self.of, self.of.primitive, tuple(dimensions)
        rows = zip(dimensions, of.in_avals, strict=True)
        avals = [a if d is None else private.unmapped_aval(size, d, a) for d, a in rows]
        values = self._as_jax(operands, avals)
        if primitive in private.fancy_primitive_batchers:
            axis = private.AxisData(None, size, None, None)
            outputs, out = private.fancy_primitive_batchers[primitive](
                axis, values, at, **of.params
            )
        else:
            problem = f"JAX's primitive {primitive.name} has no batching rule"
            advice = "Call it for each batch element, with mx.map or in a loop."
            raise explain(UnsupportedError, "vmap", problem, advice=advice)
        out = out if isinstance(out, (list, tuple)) else [out] * len(of.out_avals)
        return tuple(map(operand, of.listed(outputs))), tuple(out)


class LoweredCall(Call):
    """A primitive that JAX lowers differently for each platform.

    Its program is the one for the CPU, if JAX has one; our rules differentiate and batch it.
    """

    builder_name, hlo_name = "lowered", "call"
    of: Any = attribute(Attribute(), hlo=None)

    def stablehlo(self, emit, operands, shapes, results):
        of, platform = self.of, emit.platform
        if of.is_portable or platform == "cpu" or not (platform or emit.calls_host):
            return super().stablehlo(emit, operands, shapes, results)
        try:
            program = of.program(platform or PORTABLE)
        except (NotImplementedError, ValueError):  # no lowering rule, or it raises
            lowering_platform(emit, of.primitive.name)  # raises for several platforms
            raise
        return Call(program).stablehlo(emit, operands, shapes, results)

    def of_derived(self, computation):
        return Call(computation)


class PrimitiveCall(_WithRules, LoweredCall):
    """A primitive that runs the program that JAX lowers it to."""

    builder_name, hlo_name = "primitive", "call"


class Unlowered(_WithRules):
    """A primitive that JAX lowers only for other platforms, such as the program's.

    It has no program before lowering. Outside programs its implementation runs.
    """

    hlo_name = "call"

    def shape(self, *operands):
        return tuple(map(shape_of_aval, self.of.out_avals))

    def stablehlo(self, emit, operands, shapes, results):
        name = self.of.primitive.name
        platform = lowering_platform(emit, name)
        try:
            graph = self.of.program(platform)
        except (NotImplementedError, ValueError) as error:  # as above
            problem = f"JAX's primitive {name} has no program for the platform {platform}"
            said = str(error).splitlines()[0]
            advice = "Select an implementation for each platform with jax.lax.platform_dependent."
            raise explain(UnsupportedError, name, problem, [said], advice) from error
        return Call(graph).stablehlo(emit, operands, shapes, results)

    def run(self, *operands):
        of = self.of
        outputs = bound_at(state.trace.for_jax, of.primitive, self._as_jax(operands), of.params)
        return tuple(map(operand, of.listed(outputs)))


def zero_of(value: Any) -> Any:
    """Return JAX's symbolic zero for the tangent of a value."""
    return private.Zero(jax.typeof(value).to_tangent_aval())


def or_none(value: Any) -> Any:
    """Convert a JAX tangent or cotangent; zero becomes None."""
    if value is None or isinstance(value, (private.Zero, jax.custom_derivatives.SymbolicZero)):
        return None
    return None if getattr(value, "dtype", None) == jax.dtypes.float0 else operand(value)


def has_tangent(aval: Any) -> bool:
    """Return whether values of an abstract value have tangents."""
    return aval.to_tangent_aval().dtype != jax.dtypes.float0
