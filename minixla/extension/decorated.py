"""`custom_op`: an operation from an annotated Python function."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import jax
import numpy as np

from minixla.core.attributes import REQUIRED
from minixla.core.element_types import F32, ElementType, canonical_element_type, element_type
from minixla.core.errors import (
    AssignmentError,
    AttributeValueError,
    ConcretizationError,
    MinixlaError,
    TransformError,
    UnsupportedError,
    explain,
)
from minixla.core.shapes import Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, closed_graph
from minixla.extension import attribute_types, registration, wrappers
from minixla.extension.contexts import Context, callable_of
from minixla.extension.definitions import Definition
from minixla.extension.grammar import ArgumentDeclaration, AttributeDeclaration
from minixla.extension.kernel_table import ANY, REFERENCE
from minixla.extension.operation import CustomOperation
from minixla.extension.partial_shapes import PartialShape, stated_shapes
from minixla.typing import Array

if TYPE_CHECKING:
    from minixla.extension.typed_operations import OperationOf, Parameters, Result

_ARRAYS = (Array, jax.Array, np.ndarray, Tracer)
Kind = Literal["auto", "composition", "reference"]
_MEMBERS: dict[Any, Callable[[], attribute_types.Kind]] = {
    int: attribute_types.IntegerKind,
    float: attribute_types.FloatKind,
    bool: attribute_types.BooleanKind,
    str: attribute_types.StringKind,
    bytes: attribute_types.BytesKind,
    type: attribute_types.TypeKind,
    np.dtype: attribute_types.TypeKind,
    ElementType: attribute_types.TypeKind,
}
_SAID = 'custom_op(..., kind="reference").'
_TAKES = "mx.Array, list[mx.Array], int, float, bool, str, bytes, type, Literal, tuple[int, ...]"


@overload
def custom_op(
    name: str,
    fun: Callable[Parameters, Result],
    *,
    kind: Kind = "auto",
    shape_fn: Callable[..., Any] | None = None,
    host_fallback: bool = True,
    replace: bool = False,
) -> OperationOf[Parameters, Result]: ...
@overload
def custom_op(
    name: str,
    *,
    kind: Kind = "auto",
    shape_fn: Callable[..., Any] | None = None,
    host_fallback: bool = True,
    replace: bool = False,
) -> Callable[[Callable[Parameters, Result]], OperationOf[Parameters, Result]]: ...
def custom_op(
    name: str,
    fun: Callable[..., Any] | None = None,
    *,
    kind: Kind = "auto",
    shape_fn: Callable[..., Any] | None = None,
    host_fallback: bool = True,
    replace: bool = False,
) -> Any:
    """Make an operation of a Python function; also usable as a decorator.

    Arrays (`mx.Array`, `list[mx.Array]`) are its inputs; numbers, strings, types, tuples of them
    and `Literal`s are its attributes. It returns an array, or several for an annotation such as
    `tuple[mx.Array, mx.Array]`. It may also return another pytree of arrays that its annotation
    names: `dict[str, mx.Array]`, `list[mx.Array]`, a NamedTuple. Kernels and rules use a list of
    the leaves.

    If the function can be traced, it is the composition: it runs on all
    platforms, has derivatives and is batched. Otherwise it is the reference, a function of NumPy
    arrays. Its result types are found by calling it with ones, unless `shape_fn` states them.
    `auto` tries to trace it at the first call, and keeps the outcome. It is the reference if it
    needs concrete values, assigns to elements, or calls functions that support only NumPy arrays.
    Any other error of the function is raised.

    Args:
        name: the namespace and the name, as in `my.name`; the default namespace is `custom`.
        fun: the function; omitted in a decorator.
        kind: `composition`, `reference`, or `auto`.
        shape_fn: as for `register_op`, for a reference whose outputs have the first input's type.
        host_fallback: whether to run the reference on the host if a platform has no kernel.
        replace: whether to replace an operation of the same name. An operation of a function with
            the same name and module is always replaced, so that a notebook's cell may run again.

    Returns:
        The operation, which is called like the function, and accepts kernels and rules.

    Raises:
        AttributeValueError: an annotation is missing or not supported, or the name is invalid.

    Example:
        >>> @mx.custom_op("example.scaled")
        ... def scaled(x: mx.Array, factor: float = 2.0) -> mx.Array:
        ...     return x * factor
        >>> mx.grad(lambda x: scaled(x, factor=3.0))(1.0)
        Array(3., dtype=float32, weak_type=True)
    """
    if fun is None:
        options: Any = {"kind": kind, "shape_fn": shape_fn, "host_fallback": host_fallback}
        return functools.partial(custom_op, name, replace=replace, **options)
    if kind not in typing.get_args(Kind):
        problem, advice = f"kind {kind!r} is unknown", "It is auto, composition or reference."
        raise explain(AttributeValueError, "custom_op", problem, (), advice)
    callable_of(fun, "custom_op", "the function")
    space, _, plain = str(name).rpartition(".")
    plain = "".join([word[:1].upper() + word[1:] for word in plain.split("_")])
    full = f"{space}.{plain}" if space else plain
    caller = sys._getframe(1)
    made = _Decorated(full, fun, kind, shape_fn, _hints(fun, caller.f_locals))
    # Functions that `exec` makes without a module name have no module.
    module = getattr(fun, "__module__", None) or caller.f_globals.get("__name__") or "__main__"
    text = inspect.getdoc(fun) or ""
    code = getattr(fun, "__code__", None)
    is_named = "<lambda>" not in getattr(fun, "__qualname__", "<lambda>")
    place = fun.__qualname__ if is_named else code and (code.co_filename, code.co_firstlineno)
    operation = registration.registered(
        full,
        made.definition,
        made.shapes,
        text.partition("\n\n")[0],
        module,
        (module, place or made),
        replace,
    )
    made.attach(operation, host_fallback)
    return operation


class _NotTracedError(TransformError):
    """Error for a function that returns no traced value."""


# Errors of functions that need an array's values, or that use NumPy functions that we lack.
_OF_NUMPY = (AssignmentError, ConcretizationError, UnsupportedError, _NotTracedError)


class _Results(NamedTuple):
    """The results of a function: the shape of each array, and the structure of a pytree."""

    shapes: Sequence[Shape]
    tree: Any


class _Decorated:
    """A function that is an operation."""

    def __init__(
        self, name: str, fun: Callable[..., Any], kind: Kind, shape_fn: Any, hints: dict[str, Any]
    ) -> None:
        self.fun, self.shape_function = fun, shape_fn
        self.kind: Kind = kind
        self.signature = inspect.signature(fun)
        self.definition = self._definition(name.rpartition(".")[2], hints)

    def _definition(self, name: str, hints: dict[str, Any]) -> Definition:
        attributes, inputs = [], []
        taken = set(self.signature.parameters)

        def typed(argument: str, kind: attribute_types.Kind) -> ArgumentDeclaration:
            """Declare an input or output whose type is an attribute."""
            label = f"T_{argument}"
            while label in taken:
                label += "_"
            taken.add(label)
            attributes.append(AttributeDeclaration(label, kind))
            return ArgumentDeclaration(argument, label)

        for parameter in self.signature.parameters.values():
            hint = hints.get(parameter.name)
            is_array, is_list = hint in _ARRAYS, _is_list_of_arrays(hint)
            if is_array or is_list:
                kind = attribute_types.TypeKind()
                types = attribute_types.ListKind(kind, 0) if is_list else kind
                inputs.append(typed(parameter.name, types))
                continue
            found = None if parameter.kind in (2, 4) else _kind(hint)
            if found is None:
                problem = (
                    f"the annotation of parameter {parameter.name} is neither an array nor an "
                )
                problem += f"attribute: {hint!r}"
                advice = f"Annotate it with one of {_TAKES}."
                raise explain(AttributeValueError, f"custom_op {name}", problem, (), advice)
            default = parameter.default
            default = REQUIRED if default is inspect.Parameter.empty else found.canonical(default)
            attributes.append(AttributeDeclaration(parameter.name, found, default))
        kind, count = attribute_types.TypeKind(), _count(hints.get("return"))
        self.gives_pytree = count is None
        if count is None:
            outputs = [typed("results", attribute_types.ListKind(kind, 0))]
        else:
            names = ["result"] if count == 1 else [f"result_{index}" for index in range(count)]
            outputs = [typed(name, kind) for name in names]
        made = Definition.of(name, attributes, inputs, outputs)
        # The types of results are found by calling the function.
        return changed(made, inferred=(*made.inferred, *[output.type for output in outputs]))

    def attach(self, operation: Any, host_fallback: bool) -> None:
        """Attach the function to the operation, as its wrapper and its kernel."""
        self.operation = operation
        operation.kernels.falls_back = host_fallback
        operation.found_types = self.found_types
        made = wrappers.Wrapper(operation.operation, self.definition)
        if self.gives_pytree:
            made.rebuild = self._rebuilt
        signature, inputs = self.signature, list(self.definition.inputs)

        @api_boundary
        @functools.wraps(self.fun)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = bound.arguments
            values = [arguments[attribute.name] for attribute in made.given]
            return made([arguments[name] for name in inputs], values)

        functools.update_wrapper(operation, self.fun)
        operation.wrapper = wrapper
        if self.kind != "auto":
            self._decide(self.kind)

    @property
    def _output_types(self) -> list[str]:
        """The type attribute of each output."""
        return [str(output.type) for output in self.definition.outputs.values()]

    def _decide(self, kind: Kind) -> None:
        self.kind = kind
        if kind == "composition":
            self.operation.shape_function = None
            self.operation.kernel(ANY, self._call)
        else:
            self.operation.kernel(REFERENCE, self._computed)

    def _results(self, context: Context, *inputs: Any) -> Any:
        """Return the results of the function."""
        named = dict(zip(self.definition.inputs, inputs, strict=True))
        bound = inspect.BoundArguments(self.signature, OrderedDict())
        for name in self.signature.parameters:
            bound.arguments[name] = named[name] if name in named else context.attr(name)
        return self.fun(*bound.args, **bound.kwargs)

    def _call(self, context: Context, *inputs: Any) -> Any:
        """Return the results in a kernel's form: a pytree as the list of its leaves."""
        results = self._results(context, *inputs)
        return jax.tree.leaves(results) if self.gives_pytree else results

    def _computed(self, context: Context, *inputs: Any) -> Any:
        """Return the results for NumPy arrays, in the types that were found."""
        results = self._results(context, *inputs)
        types = [context.attr(name) for name in self._output_types]
        if self.gives_pytree:
            (types,) = types
            results, tree = jax.tree.flatten(results)
            self._check_tree(context, inputs, tree)
        elif len(types) == 1:
            return np.asarray(results, types[0].dtype)
        return [np.asarray(x, kind.dtype) for x, kind in zip(results, types, strict=False)]

    def _check_tree(self, context: Context, inputs: Sequence[Any], tree: Any) -> None:
        """Raise an error if the pytree of results is not the one that was found."""
        operation = context.operation
        flat = zip(operation.operand_types, operation.flat_inputs(inputs), strict=True)
        shapes = [Shape(kind, np.shape(array)) for kind, array in flat]
        expected = self._found(operation, shapes).tree
        if tree != expected:
            problem = "the structure of its results depends on the values of its arguments"
            details = [f"with ones: {expected}", f"now: {tree}"]
            advice = "Return the same structure for all values of the same shapes and types."
            raise explain(TransformError, operation.builder_name, problem, details, advice)

    def found_types(self, operation: Any, shapes: Sequence[Shape]) -> dict[str, Any]:
        """Return the result types, for an operation of any result types and its operands."""
        types = [shape.element_type for shape in self._found(operation, shapes).shapes]
        if self.gives_pytree:
            return {self._output_types[0]: tuple(types)}
        return dict(zip(self._output_types, types, strict=True))

    def _rebuilt(self, operation: CustomOperation, shapes: Sequence[Shape], results: Any) -> Any:
        """Return the results in the function's form, a pytree."""
        return jax.tree.unflatten(self._found(operation, shapes).tree, results)

    def shapes(self, context: Context, *inputs: Any) -> Any:
        """Compute the shapes of a reference."""
        if self.shape_function is not None:
            return self.shape_function(context, *inputs)
        operation = context.operation
        pairs = zip(operation.operand_types, operation.flat_inputs(inputs), strict=True)
        shapes = [Shape(kind, partial.dimensions) for kind, partial in pairs]
        dimensions = [shape.dimensions for shape in self._found(operation, shapes).shapes]
        if self.gives_pytree:
            return [dimensions]
        return dimensions[0] if len(self.definition.outputs) == 1 else dimensions

    def _found(self, operation: CustomOperation, shapes: Sequence[Shape]) -> _Results:
        """Find the results of the function."""
        traced: Exception | None = None
        if self.kind != "reference":
            try:
                results = self._traced(operation, tuple(shapes))
                if self.kind == "auto":
                    self._decide("composition")
                return results
            except Exception as error:
                if self.kind == "composition":
                    raise
                if not _is_of_numpy(error):
                    error.add_note("If the function supports only NumPy arrays: " + _SAID)
                    raise
                traced = error
        try:
            results = self._probed(operation, tuple(shapes))
        except Exception as error:
            if traced is not None:
                error.add_note(f"It cannot be traced either: {traced}")
            raise
        if self.kind == "auto":
            self._decide("reference")
        return results

    def _flat(self, operation: CustomOperation, results: Any) -> tuple[list[Any], Any]:
        """Return the function's arrays, and the structure of a pytree."""
        if self.gives_pytree:
            return jax.tree.flatten(results)
        return operation.flat_outputs(results, f"the function {self.fun.__name__}"), None

    @functools.lru_cache(maxsize=1024)  # noqa: B019  # an operation lives as long as the process
    def _traced(self, operation: CustomOperation, shapes: tuple[Shape, ...]) -> _Results:
        tree: Any = None

        def traced(*operands: Any) -> Any:
            nonlocal tree
            context = Context(operation, "", operation.nested_inputs(operands))
            flat, tree = self._flat(operation, self._results(context, *context.inputs))
            if not any(isinstance(leaf, Tracer) for leaf in flat):
                problem = f"the function {self.fun.__name__} returns no traced value"
                raise explain(_NotTracedError, operation.builder_name, problem)
            return tuple(flat)

        name = operation.builder_name
        shapes_found: Any = closed_graph(traced, shapes, name, name).output_shapes
        return _Results(shapes_found, tree)

    @functools.lru_cache(maxsize=1024)  # noqa: B019  # an operation lives as long as the process
    def _probed(self, operation: CustomOperation, shapes: tuple[Shape, ...]) -> _Results:
        ones = [np.ones(shape.dimensions, shape.dtype) for shape in shapes]
        context = Context(operation, REFERENCE, operation.nested_inputs(ones))
        try:
            if self.shape_function is not None and not self.gives_pytree:
                return _Results(self._stated(operation, context, shapes), None)
            results = self._results(context, *context.inputs)
        except MinixlaError:
            raise
        except Exception as error:
            problem = "the function's results are unknown: called with ones it raises an error"
            details = [f"shapes: {', '.join(map(str, shapes))}", f"{type(error).__name__}: {error}"]
            advice = "State them: custom_op(..., shape_fn=mx.unchanged_shape)."
            name = operation.builder_name
            raise explain(TransformError, name, problem, details, advice) from error
        flat, tree = self._flat(operation, results)
        kinds = [canonical_element_type(element_type(np.asarray(x).dtype)) for x in flat]
        pairs = zip(kinds, flat, strict=True)
        return _Results([Shape(kind, np.shape(array)) for kind, array in pairs], tree)

    def _stated(
        self, operation: CustomOperation, context: Context, shapes: Sequence[Shape]
    ) -> Sequence[Shape]:
        """Return the types that the shape function states (else the first input's); no sizes."""
        inputs = operation.nested_inputs([PartialShape(shape.dimensions) for shape in shapes])
        stated = stated_shapes(self.shapes(context, *inputs), operation.output_lengths)
        default = shapes[0].element_type if shapes else F32
        types = [declared.type or default for declared in stated or ()]
        return [Shape(kind) for kind in types or [default] * len(self.definition.outputs)]


def _is_of_numpy(error: BaseException | None) -> bool:
    """Test whether a function used traced values in a way that only NumPy arrays support."""
    if isinstance(error, AttributeError):
        return isinstance(error.obj, Tracer) and hasattr(np.ndarray, error.name or "")
    return error is not None and (isinstance(error, _OF_NUMPY) or _is_of_numpy(error.__cause__))


def _hints(fun: Callable[..., Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of a function, evaluated where it is defined."""
    try:
        return typing.get_type_hints(fun, localns=names)
    except NameError as error:
        problem = f"an annotation of {fun.__name__} cannot be evaluated: {error}"
        advice = "Import what it names where the function is defined."
        raise explain(AttributeValueError, "custom_op", problem, (), advice) from None


def _is_list_of_arrays(hint: Any) -> bool:
    arguments = typing.get_args(hint)
    is_list = typing.get_origin(hint) in (list, Sequence)
    return is_list and len(arguments) == 1 and arguments[0] in _ARRAYS


def _kind(hint: Any) -> attribute_types.Kind | None:
    """Return the kind of attribute for an annotation; None for others."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return (
            attribute_types.EnumerationKind(*arguments)
            if all(isinstance(x, (str, bytes)) for x in arguments)
            else None
        )
    if origin in (tuple, list, Sequence):
        members = [argument for argument in arguments if argument is not Ellipsis]
        member = _MEMBERS.get(members[0]) if len(set(members)) == 1 else None
        return None if member is None else attribute_types.ListKind(member())
    made = _MEMBERS.get(type if origin is type else hint if origin is None else origin)
    return None if made is None else made()


def _count(hint: Any) -> int | None:
    """Return the number of arrays that a function returns; None for another pytree."""
    if hint in (None, types.NoneType, Any, *_ARRAYS):
        return 1
    members = typing.get_args(hint)
    is_plain = typing.get_origin(hint) is tuple and all(member in _ARRAYS for member in members)
    return len(members) if is_plain else None
