"""The base class of operations that are registered from declarations, and their rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np

import minixla_ops as ops
from minixla.core.errors import DerivativeError, MinixlaError, ShapeError, TransformError, explain
from minixla.core.forward import has_tangent
from minixla.core.linear import instantiate
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.source import warn
from minixla.core.state import at_own_lines
from minixla.core.symbolic_zeros import pulled
from minixla.core.tracing import Tracer, current_trace, shape_of
from minixla.extension.contexts import Context
from minixla.extension.declared import DeclaredOperation
from minixla.extension.kernel_table import ANY, REFERENCE
from minixla.extension.partial_shapes import PartialShape, Stated, stated_shapes
from minixla.extension.types import STRING, ForeignType
from minixla.reference_evaluator.trace import wide_type, widened
from minixla.sharding.probing import probed_rule
from minixla_ops.helpers.batch_dimensions import to_front
from minixla_ops.helpers.shorthand import array_shape, as_tuple
from minixla_ops.programs.lowering import Lowered, kept_program, lowered_program
from minixla_ops.programs.reference_evaluation import reference_graph

if TYPE_CHECKING:
    from minixla.extension.kernels import PythonKernel


_NO_KERNEL = 'Register a kernel "reference", or a composition: op.composition.'


class CustomOperation(DeclaredOperation, Lowered):
    """Base class of operations that are registered from declarations.

    Its rules use the kernels, derivatives and batching rule that are registered for the operation.

    Checks:
        (types) each operand has the declared element type.
        (shapes) the operands have shapes that the shape function accepts.
    """

    def _check_count(self, shapes):
        wanted = len(self.operand_types)
        if len(shapes) != wanted:
            problem = f"{len(shapes)} operands were given"
            lengths = [
                f"{n}: {len(t)}" for n, t in zip(self.input_names, self.input_types, strict=True)
            ]
            raise explain(ShapeError, self.builder_name, problem, lengths, f"It takes {wanted}.")

    def shape(self, *operands):
        for index, (shape, kind) in enumerate(zip(operands, self.operand_types, strict=True)):
            if isinstance(kind, ForeignType):
                self.refuse("types", f"operand {index} is declared as {kind}", f"{kind.reason}.")
            if shape.element_type is not kind:
                problem = f"operand {index} is {shape.element_type}, where {kind} is declared"
                self.refuse("types", problem, f"Convert it: x.astype({str(kind.dtype)!r}).")
        if self.registered.shape_function is None:
            shapes = composed_shapes(self, operands)
        else:
            shapes = self._declared_shapes(operands)
        return self.as_results(shapes)

    def _declared_shapes(self, operands: Sequence[Shape]) -> list[Shape]:
        """Return the result shapes by the shape function."""
        given = [PartialShape(operand.dimensions) for operand in operands]
        stated = self.partial_shapes(given, operands)
        shapes = []
        for index, (partial, kind) in enumerate(zip(stated, self.result_types, strict=True)):
            if isinstance(kind, ForeignType):
                self.refuse("types", f"output {index} is declared as {kind}", f"{kind.reason}.")
            sizes: Any = partial.dimensions
            if sizes is None or None in sizes:
                problem = f"the shape function does not know the shape of output {index}: {partial}"
                self.refuse("shapes", problem, "Sizes must follow from shapes and attributes.")
            shapes.append(Shape(kind, sizes))
        return shapes

    def partial_shapes(
        self, partial: Sequence[PartialShape], operands: Sequence[Any] = ()
    ) -> list[PartialShape]:
        """Return the shape function's result for shapes that may be partly unknown."""
        function = self.registered.shape_function
        assert function is not None
        inputs = self.nested_inputs(partial)
        context = Context(self, inputs=self.nested_inputs(operands or partial))
        try:
            with jax.ensure_compile_time_eval():  # sizes may be in arrays that the function makes
                result = function(context, *inputs)
                stated = stated_shapes(result, self.output_lengths)
            if stated is None:
                self._misfit_shapes(result)
            self._check_stated(stated)
            return [output.shape for output in stated]
        except MinixlaError:
            raise
        except (TypeError, ValueError) as error:
            self.refuse(
                "shapes",
                str(error).rstrip("."),
                "Pass operands whose shapes the shape function accepts.",
            )

    def _misfit_shapes(self, result: Any) -> NoReturn:
        """Raise the error for a result that is not the sizes of the outputs."""
        names = ", ".join(self.output_labels())
        advice = f"Return the sizes of {names}: a sequence of integers"
        if len(self.result_types) != 1:
            advice = f"Return a list of the sizes of each of {names}"
        self._misfit("the shape function", f"returned: {result!r}"[:200], f"{advice}.")

    def _check_stated(self, stated: Sequence[Stated]) -> None:
        """Raise ShapeError if the shape function states another type than the declaration."""
        triples = zip(self.output_labels(), stated, self.result_types, strict=True)
        for label, shape, declared in triples:
            if shape.type is not None and shape.type is not declared:
                problem = (
                    f"the shape function returns type {shape.type} for {label}, but {declared} "
                )
                self.refuse("types", f"{problem}is declared", "Return its sizes only.")

    def changed(self, change):
        # In double it is the same operation, on arrays of another type.
        return self

    def reference(self, *operands):
        pairs = zip(operands, self.operand_types, strict=True)
        shapes = tuple([Shape(kind, array.shape) for array, kind in pairs])
        is_wide = any(a.dtype != s.dtype for a, s in zip(operands, shapes, strict=True))
        kernel = self.registered.kernels.reference(self)
        if kernel is None:
            program = lowered_program(self, shapes)
            program = widened(program) if is_wide else program
            return self.as_results(reference_graph(program, operands))
        arrays = list(map(np.asarray, self._results_of(kernel, operands, REFERENCE, is_wide)))
        wanted: Any = as_tuple(self.infer(shapes))
        for name, array, shape in zip(self.output_labels(), arrays, wanted, strict=True):
            types = {shape.dtype, wide_type(shape.element_type).dtype if is_wide else shape.dtype}
            if array.dtype not in types or array.shape != shape.dimensions:
                problem = f"{kernel} returns another {name} than declared"
                details = [f"declared: {shape}", f"given: {array.dtype}{list(array.shape)}"]
                advice = "Return an array of this shape and type, or fix the shape function."
                raise explain(ShapeError, self.builder_name, problem, details, advice)
        return self.as_results(arrays)

    def on_strings(self, operands: Sequence[Any]) -> Any:
        """Return the results of the reference kernel, outside of programs, as NumPy arrays."""
        kernel = self.registered.kernels.reference(self)
        is_traced = any(isinstance(operand, Tracer) for operand in operands)
        if kernel is None or is_traced:
            what = "it was given traced values" if is_traced else "it has no reference kernel"
            problem, advice = f"it takes or gives strings, but {what}", f"{STRING.reason}."
            raise explain(TransformError, self.builder_name, problem, (), advice)
        arrays = [
            np.asarray(operand, object if kind is STRING else kind.dtype)  # type: ignore[union-attr]  # only strings have no dtype
            for operand, kind in zip(operands, self.operand_types, strict=True)
        ]
        return self.as_results(list(map(np.asarray, self._results_of(kernel, arrays, REFERENCE))))

    def _results_of(
        self, kernel: PythonKernel, operands: Sequence[Any], platform: str, is_wide: bool = False
    ) -> list[Any]:
        """Return the results of a kernel's function."""
        context = Context(self, platform, self.nested_inputs(operands), is_wide=is_wide)
        results = self.flat_outputs(kernel.function(context, *context.inputs), str(kernel))
        if platform == REFERENCE and any(isinstance(result, jax.Array) for result in results):
            what = f"{self.builder_name}: {kernel} computes with JAX. As a reference it is called "
            what += "on the host, even from compiled programs. To compile it into them, register "
            warn(f"{what}it with @op.composition, or as the kernel of a platform.")
        return results

    @property
    def is_lowered(self):
        return self.registered.kernels.composition(self) is not None

    def lowered(self, *operands):
        kernel = self.registered.kernels.composition(self)
        if kernel is None:
            raise self.lacks("reference", advice=_NO_KERNEL)
        return self.as_results(self.run_python(kernel, operands, ""))

    def run_python(self, kernel: PythonKernel, operands: Sequence[Any], platform: str) -> list[Any]:
        """Return the results of a kernel that is a function of traced values."""
        results, trace = self._results_of(kernel, operands, platform), current_trace()
        return [trace.lift(result, self.builder_name) for result in results]

    def stablehlo(self, emit, operands, shapes, results):
        kernel = self.registered.kernels.chosen(self, emit, shapes)
        return kernel.write(self, emit, operands, shapes, results)

    def jvp(self, primals, tangents, results):
        registered = self.registered
        if registered.forward_rule is not None:
            return self._pushed(registered.forward_rule, primals, tangents, results)
        if registered.gradient_rule is not None:
            return Operation.jvp(self, primals, tangents, results)
        if self.is_lowered:
            return super().jvp(primals, tangents, results)
        problem = "no derivative is registered for it"
        name = registered.name
        advice = (
            f"Register one for {name}: @op.gradient, @op.jvp, a composition (@op.composition), or "
            "op.not_differentiable(reason) if zero is intended."
        )
        raise explain(DerivativeError, self.builder_name, problem, (), advice)

    def _pushed(self, rule: Any, primals: Any, tangents: Any, results: Any) -> Any:
        """Return the tangents by the author's rule."""
        instantiated = [_instantiated(t, p) for t, p in zip(tangents, primals, strict=True)]
        flat = as_tuple(results)
        context = Context(self, "", self.nested_inputs(primals), self.nested_outputs(flat))
        tangents_out = _asked(rule, context, self.nested_inputs(instantiated))
        moved = self.flat_outputs(tangents_out, "the jvp rule")
        moved = self._checked("tangent", moved, flat)
        return tuple(moved) if type(results) is tuple else moved[0]

    def pulled(self, cotangents: Any, operands: Any, results: Any) -> list[Any]:
        """Return the cotangents of the operands by the author's gradient."""
        rule = self.registered.gradient_rule
        assert rule is not None
        instantiated = [_instantiated(c, r) for c, r in zip(cotangents, results, strict=True)]
        context = Context(self, "", self.nested_inputs(operands), self.nested_outputs(results))
        gradients = _asked(rule, context, self.nested_outputs(instantiated))
        gradients = gradients if isinstance(gradients, (list, tuple)) else [gradients]
        flat = self.flat(
            gradients, self.definition.inputs, self.input_types, "the gradient function"
        )
        return self._checked("cotangent", flat, operands)

    def _checked(self, what: str, results_given: list[Any], values: Sequence[Any]) -> list[Any]:
        """Check a rule's derivatives, and return None for values without a derivative."""
        trace, checked = current_trace(), []
        for index, (result, value) in enumerate(zip(results_given, values, strict=True)):
            if result is None or not has_tangent(value):
                checked.append(None)
                continue
            checked.append(trace.lift(result, self.builder_name))
            if shape_of(checked[-1]) is not shape_of(value):
                problem = f"the {what} {index} of its rule does not fit the value it belongs to"
                details = [f"{what}: {shape_of(checked[-1])}", f"value: {shape_of(value)}"]
                advice = f"A {what} has the shape and element type of its value, or is None."
                raise explain(TransformError, self.builder_name, problem, details, advice)
        return checked

    def batch(self, operands, dimensions):
        rule: Any = self.registered.batching_rule
        if rule is None and self.is_lowered:
            return super().batch(operands, dimensions)
        if rule is None or rule == "sequential":
            return Operation.batch(self, operands, dimensions)
        if callable(rule):
            context = Context(self, "", self.nested_inputs(operands))
            nested: Any = map(self.nested_inputs, (operands, dimensions))
            found, at = rule(context, *nested)  # type: ignore[misc]  # the author's function
            places = self.flat_outputs(at, "the batching rule")
            results = self.flat_outputs(found, "the batching rule")
        else:
            moved, size = to_front(operands, dimensions)
            if rule == "expand_dims":
                pairs = zip(operands, moved, dimensions, strict=True)
                moved = [_with_one(o) if at is None else m for o, m, at in pairs]
            results = list(as_tuple(self(*moved)))
            places = [0] * len(results)
            for result in results:
                if array_shape(result).dimensions[:1] != (size,):
                    problem = f"with batching {rule!r} a result lacks the leading batch dimension"
                    details = [f"result {shape_of(result)}, the batch has {size} elements"]
                    advice = "The kernel must keep leading dimensions: batch sequentially."
                    raise explain(TransformError, self.builder_name, problem, details, advice)
        if self.gives_tuple:
            return tuple(results), tuple(places)
        return results[0], places[0]

    @property
    def split_by(self):
        # A rule that was found on small arrays is a guess, good enough only for shardings.
        if self.registered.sharding_notation:
            return "pieces"
        is_program = any(kernel.platform == ANY for kernel in self.registered.kernels.listed)
        return "xla" if is_program else "nobody"

    def sharding_rule(self, *operands):
        registered, results = self.registered, as_tuple(self.infer(operands))
        notation, probed = registered.sharding_notation, registered.probed_rules
        if notation is None:
            return None
        if notation:
            return notation.rule(operands, results)
        if (self, operands) not in probed:
            rule = probed_rule(self, operands)
            if rule is None:
                return None
            probed[self, operands] = replace(rule, is_custom=True)
        return probed[self, operands]


def reverse_rule(self: CustomOperation, cotangents, operands, results, active) -> Any:
    """Return the `vjp` of operations with a gradient, which core then calls."""
    flat = as_tuple(results)
    gradients = pulled(
        lambda *cotangents_given: self.pulled(cotangents_given, operands, flat),
        as_tuple(cotangents),
        flat,
    )
    return [gradient if flag else None for gradient, flag in zip(gradients, active, strict=True)]


def _asked(rule: Callable[..., Any], context: Context, derivatives: Sequence[Any]) -> Any:
    """Return the result of an author's rule for the derivatives of several values, or of one."""
    with at_own_lines():
        return rule(context, derivatives[0] if len(derivatives) == 1 else derivatives)


def _instantiated(derivative: Any, value: Any) -> Any:
    return instantiate(derivative, value) if has_tangent(value) else None


def _with_one(value: Any) -> Any:
    return ops.reshape(value, (1, *array_shape(value).dimensions))


def composed_shapes(operation: CustomOperation, operands: Sequence[AnyShape]) -> Sequence[Any]:
    """Return the result shapes of the composition, for an operation without a shape function."""
    kernel = operation.registered.kernels.composition(operation)
    if kernel is None:
        problem = "the shapes of its results are unknown"
        advice = (
            "Pass shape_fn (such as mx.unchanged_shape) to register_op, or register a composition."
        )
        raise explain(ShapeError, operation.builder_name, problem, (), advice)
    function: Callable[..., Any] = operation.lowered
    graph = kept_program(function, tuple(operands), operation.builder_name)
    kinds = operation.result_types
    types = [getattr(shape, "element_type", None) for shape in graph.output_shapes]
    if types != kinds:
        problem = f"{kernel} returns other types than declared"
        details = [f"declared: {kinds}", f"given: {types}"]
        raise explain(ShapeError, operation.builder_name, problem, details, "Convert the results.")
    return graph.output_shapes
