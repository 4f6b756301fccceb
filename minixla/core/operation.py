"""The base class of operations, and the cached inference of result shapes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from minixla.core.attributes import Attribute, Function, spelling
from minixla.core.errors import (
    AttributeValueError,
    DerivativeError,
    ErrorType,
    MinixlaError,
    ShapeError,
    SizeError,
    TransformError,
    explain,
    too_large,
)
from minixla.core.records import Record, all_attributes, no_attribute
from minixla.core.registry import REGISTRY as REGISTRY
from minixla.core.registry import full_name, operation_named, registered
from minixla.core.registry import register as register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.state import state as _state
from minixla.core.tracebacks import hide_frames

if TYPE_CHECKING:
    from minixla.core.hlo_text import HloEmitter
    from minixla.core.stablehlo_text import Emitter

Shapes = AnyShape | tuple[AnyShape, ...]
#: None or a method.
_NO_HOOK: Any = None

#: The `linear_operands` of a variadic operation that is linear in all of them.
EVERY_OPERAND = range(sys.maxsize)

# How many inferences an operation remembers; fewer where they keep programs alive.
_MOST_INFERRED = 4096
_MOST_RUN = 256
# How many operands, and characters of an attribute, an error shows.
_MOST_LINES = 16
_MOST_SHOWN = 300

_DERIVATIVE_ADVICE = "Or wrap the call in mx.custom_jvp, mx.custom_vjp or mx.stop_gradient."


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[A-Z]+", name)


class Operation(Record):
    """What an operation is: declarations and rules, side by side.

    A subclass is the whole definition of one operation; an object of it is a record of attributes,
    which are its fields (`minixla.core.attributes.attribute`) and do not change. Equal attributes
    give the same object, so that operations are compared with `is`; programs and constants among
    them count by identity, and what holds a `Function` is one of its own each time. Called with
    operands it applies the operation.

    Rules get operands in order. Where an operation has one result, a rule takes and gives that one
    value; where `shape` gives a tuple, rules do too.

    Declarations:
        name: XLA's name, `DotGeneral`; default: the class's name. In another namespace than XLA's
            that stands in front, `my.DotGeneral`, so that such a name is never XLA's.
        namespace: whose names do not clash with those of others; default: the class's top-level
            package, which for minixla and minixla_ops is `xla`.
        hlo_name, stablehlo_name: its names in HLO (`dot`) and StableHLO (`dot_general`).
        spec_names: the entries of XLA's operation semantics that it is; default: its name. Several
            builders may make one operation (`Dot` and `DotGeneral`).
        operands: their names; a last name ending in `...` is variadic.
        attributes: the same, of classes whose rules get attributes as keywords.
        has_side_effect: never dropped or reordered. Operations where it depends on the call have
            an attribute of that name.
        zero_derivative: why the derivative is zero everywhere (`piecewise constant`), or None.
        no_derivative: why no derivative exists, or None.
        telling_attributes: names of attributes without which an error does not say what is called.
        missing_rules: why a rule is left out, by the rule's name.
        linear_operands: indices of the operands that it is linear in, or None.
        jointly_linear: linear in all of them together (`add`), not in each alone (`multiply`).
        dynamic_operands: indices of the operands whose dimensions may be dynamic: the rules are
            right for a size below its bound.
        is_elementwise: each element of the results depends on the operands' elements at the same
            place alone.
        spans_devices: runs on several devices, by `run`, so that no program can hold it.
        reads_bits: depends on how its operands' types represent values, so that the reference
            evaluates it in these types even where it computes everything else in double.
    """

    #: The one object of the class, made by `register`.
    instance: ClassVar[Any] = None
    name: ClassVar[str] = ""
    namespace: ClassVar[str] = ""
    builder_name: ClassVar[str] = ""
    hlo_name: ClassVar[str] = ""
    stablehlo_name: ClassVar[str | None] = None
    spec_names: ClassVar[tuple[str, ...]] = ()
    operands: ClassVar[Any] = ()
    operand_names: ClassVar[tuple[str, ...]] = ()
    attributes: ClassVar[dict[str, Attribute]] = {}
    is_plain: ClassVar[bool] = True
    is_elementwise: ClassVar[bool] = False
    # Of a record: the result shapes by operand shapes.
    _inferred: ClassVar[dict[Any, Any]] = {}
    has_side_effect: ClassVar[bool] = False
    zero_derivative: ClassVar[str | None] = None
    no_derivative: ClassVar[str | None] = None
    telling_attributes: ClassVar[Sequence[str]] = ()
    missing_rules: ClassVar[dict[str, str]] = {}
    linear_operands: ClassVar[Sequence[int] | None] = None
    jointly_linear: ClassVar[bool] = True
    dynamic_operands: ClassVar[Sequence[int]] = ()
    spans_devices: ClassVar[bool] = False
    reads_bits: ClassVar[bool] = False

    def __call__(self, *operands: Any, **changed: Any) -> Any:
        """Applies the operation under the current trace, with some attributes changed.

        Returns:
            The result, or the tuple of results where the operation has several.
        """
        operation = self.replace(**changed) if changed else self
        try:
            return _state.trace.process(operation, operands, {})
        except Exception as error:
            hide_frames(error)
            raise

    def changed(
        self, change: Callable[[Any], Any], attributes: dict[str, Any]
    ) -> tuple[Operation, dict[str, Any]]:
        """The operation and its attributes as keywords, each attribute passed through `change`."""
        if self.fields:
            return self.replace(**{name: change(each) for name, each in self.values.items()}), {}
        return self, {name: change(each) for name, each in attributes.items()}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        name = cls.__dict__.get("name", cls.__name__)
        cls.name = full_name(name, cls.namespace, cls.__module__)
        if "spec_names" not in cls.__dict__:
            cls.spec_names = (cls.name,)
        if "builder_name" not in cls.__dict__:
            cls.builder_name = "_".join(_words(name)).lower()
        if "hlo_name" not in cls.__dict__:
            cls.hlo_name = "-".join(_words(name)).lower()
        if "operands" in cls.__dict__:
            cls.operand_names = cls.operands
        cls._declare()

    @classmethod
    def _declare(cls) -> None:
        super()._declare()
        kinds = [*(field.kind for field in cls.fields.values()), *cls.attributes.values()]
        cls.is_ambiguous = any(kind.is_ambiguous for kind in kinds)
        cls.keeps_identity = any(kind.keeps_identity for kind in kinds)
        cls.is_unique = any(isinstance(kind, Function) for kind in kinds)
        #: Whether no instruction of it runs a program, has a side effect or spans devices.
        cls.is_plain = not (
            cls.has_side_effect
            or any(kind.holds_programs for kind in kinds)
            or cls.spans_devices
            or "has_side_effect" in cls.attributes
            or "has_side_effect" in cls.fields
        )

    # Rules, in the order in which every class gives them.

    def shape(self, *operands: Any, **attributes: Any) -> Shapes:
        """The result shape (or a tuple of them) for operand shapes.

        Raises:
            ShapeError, AttributeValueError: through `self.reject` or `self.reject_attribute`.
        """
        raise self._lacks(TransformError, "shape")

    def reference(self, *operands: Any, **attributes: Any) -> Any:
        """The meaning in NumPy: result array (or tuple) for operand arrays."""
        raise self._lacks(TransformError, "reference", "mx.reference needs it.")

    def stablehlo(
        self,
        emit: Emitter,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        **attributes: Any,
    ) -> Sequence[str]:
        """Writes the operation through `emit` and returns the names of its results."""
        if self.stablehlo_name is None:
            raise self._lacks(TransformError, "stablehlo", "The engine and mx.jit need it.")
        written = self._written(0) if self.fields else attributes
        regions = [emit.region(each) for each in self.computations]
        name = f"stablehlo.{self.stablehlo_name}"
        return emit.operation(name, operands, shapes, results, regions, **written)

    def _written(self, text: int) -> dict[str, Any]:
        """The attributes with their names and notation in StableHLO (0) or HLO (1)."""
        key = "_written_in_hlo" if text else "_written_in_stablehlo"
        written = self.__dict__.get(key)
        if written is None:
            written = {}
            # HLO names programs last.
            for name, field in sorted(self.fields.items(), key=lambda x: x[1].kind.holds_programs):
                label = field.hlo if text else field.stablehlo
                if label is not None and (text or not field.kind.holds_programs):
                    codec = field.kind.hlo if text else field.kind.stablehlo
                    value = self.__dict__[name]
                    given = None if value is None else codec(value)
                    written.update(given if type(given) is dict else {label: given})
            self.__dict__[key] = written
        return dict(written)

    def hlo(
        self,
        emit: HloEmitter,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        **attributes: Any,
    ) -> str:
        """Writes the operation in HLO text (`str(graph)`) through `emit`; returns its name.

        The default writes one instruction, `hlo_name` with what `hlo_attributes` gives; operations
        that HLO has in another form (as several instructions, or in other order) write that. Where
        there is not exactly one result, `result` is the shape of their tuple.
        """
        texts = self.hlo_attributes(shapes, **attributes)
        return emit.instruction(self.hlo_name, operands, result, **texts)

    def hlo_attributes(self, shapes: Sequence[AnyShape], /, **attributes: Any) -> dict[str, Any]:
        """The attributes under the names and in the notation of HLO.

        Strings are HLO text; other values are printed as HLO does: tuples as `{1,2}`, graphs as
        the name of a computation; None leaves one out. The default gives what the attributes'
        declarations say.
        """
        return self._written(1) if self.fields else attributes

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        results: Any,
        /,
        **attributes: Any,
    ) -> Any:
        """The tangent of the result (or a tuple of them); None stands for a zero tangent.

        Args:
            primals: the operands.
            tangents: a tangent or None for each operand; at least one is not None.
            results: what the operation gave for `primals`.
            attributes: the operation's attributes.
        """
        if self.linear_operands is None:
            raise self._lacks(DerivativeError, "jvp", _DERIVATIVE_ADVICE)
        from minixla.core.linear import linear_jvp

        return linear_jvp(self, primals, tangents, attributes)

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The transpose of the operation as a linear map of the operands marked in `linear`.

        Args:
            cotangents: that of the result (or a tuple, with None for zero).
            operands: the values of the others; for linear ones only the shape may be used.
            linear: which operands are variables.
            attributes: the operation's attributes.

        Returns:
            A cotangent or None for each operand.
        """
        raise self._lacks(DerivativeError, "transpose", _DERIVATIVE_ADVICE)

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        """The cotangents of the operands marked in `active` (None for the others).

        The default transposes a linear operation; operations with neither this rule nor linear
        operands have their jvp transposed.
        """
        from minixla.core.linear import linear_vjp

        return linear_vjp(self, cotangents, operands, active, attributes)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, Any]:
        """The operation over a batch.

        Args:
            operands: the operands, some with one more dimension.
            dimensions: for each operand where its batch dimension is, or None.
            attributes: the operation's attributes.

        Returns:
            The result (or tuple of results) and its batch dimension (or tuple of them; None where
            a result does not depend on the batch). The default runs the members one by one.
        """
        from minixla.core.roles import role

        return role("batch_by_loop")(self, operands, dimensions, attributes)

    # Hooks for operations that hold programs: None, or a method of the class.

    #: `run(*operands, **attributes)`: evaluates in Python instead of by the `reference` rule or
    #: the engine, where the current trace evaluates.
    run = _NO_HOOK
    #: `stage_operands(operands) -> (operation, operands)`: both, as a graph holds them.
    stage_operands = _NO_HOOK
    #: `forward(primals, tangents, **attributes) -> (results, tangents)`: result and jvp in one.
    forward = _NO_HOOK
    #: `enter(trace, operands)`: its results, with the programs that it runs entered by a trace.
    enter = _NO_HOOK
    #: `linearize(operands, active, **attributes) -> (results, pullback)`: result and vjp in one.
    linearize = _NO_HOOK
    #: `dependent(variables, **attributes)`: which results depend on the marked operands, where a
    #: jvp rule may apply it to tangents beside values that they do not depend on.
    dependent = _NO_HOOK
    #: `batch_within(trace, operands, dimensions, **attributes)`: `batch` for functions that may
    #: read values of the batching trace, which is told.
    batch_within = _NO_HOOK

    def _lacks(self, kind: type[ErrorType], rule: str, advice: str = "") -> ErrorType:
        if rule in self.missing_rules:
            problem = f"the operation has no {rule} rule: {self.missing_rules[rule]}"
            return explain(kind, self.builder_name, problem)
        advice = f"Give the class {type(self).__name__} the rule {rule}. {advice}".rstrip()
        return explain(kind, self.builder_name, f"the operation has no {rule} rule", advice=advice)

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        """Whether it is linear in the marked operands together."""
        declared = self.linear_operands
        marked = [index for index, flag in enumerate(variables) if flag]
        if declared is None or not all(index in declared for index in marked):
            return False
        return self.jointly_linear or len(marked) == 1

    # What the framework calls.

    def infer(
        self, shapes: tuple[AnyShape, ...], attributes: dict[str, Any]
    ) -> tuple[Shapes, dict[str, Any]]:
        """The result shapes and canonical attributes; cached by shapes and attributes."""
        if not self.attributes and not attributes:
            found = self._inferred.get(shapes)
            return (self._inference(shapes) if found is None else found), attributes
        return self._infer_with(shapes, attributes)

    def _inference(self, shapes: tuple[AnyShape, ...]) -> Any:
        self._check_count(len(shapes), shapes)
        self._refuse_dynamic(shapes)
        try:
            found = self.shape(*shapes)
        except SizeError as error:
            raise self._too_large(error, shapes) from None
        except MinixlaError as error:
            told = getattr(error, "refusal", None)
            if told is None or told[0] is not self:
                raise
            _, kind, label, problem, advice = told
            lines = self._operand_lines(shapes)
            raise self._refusal(kind, label, problem, advice, lines) from None
        if len(self._inferred) >= (_MOST_RUN if self.keeps_identity else _MOST_INFERRED):
            self._inferred.clear()
        self._inferred[shapes] = found
        return found

    def _infer_with(
        self, shapes: tuple[AnyShape, ...], attributes: dict[str, Any]
    ) -> tuple[Shapes, dict[str, Any]]:
        key = (shapes, tuple(attributes.items())) if attributes else shapes
        try:
            if self.is_ambiguous:
                key = (key, spelling(tuple(attributes.values())))
            found = self._inferred.get(key)
        except TypeError:  # an unhashable attribute, such as a list
            attributes = self.canonical_attributes(attributes)
            hash(tuple(attributes.values()))  # else this would not end
            return self._infer_with(shapes, attributes)
        if found is None:
            attributes = self.canonical_attributes(attributes)
            self._check_count(len(shapes), shapes)
            self._refuse_dynamic(shapes)
            try:
                found = (self.shape(*shapes, **attributes), attributes)
            except SizeError as error:
                raise self._too_large(error, shapes) from None
            if len(self._inferred) >= (_MOST_RUN if self.keeps_identity else _MOST_INFERRED):
                self._inferred.clear()
            self._inferred[key] = found
        elif self.keeps_identity:
            return found[0], self.canonical_attributes(attributes)
        return found

    def _too_large(self, error: SizeError, shapes: Sequence[AnyShape]) -> SizeError:
        """The error of a shape that cannot be, for this operation."""
        return too_large(self.builder_name, error.problem, self._operand_lines(shapes))

    def _operand_lines(self, shapes: Sequence[AnyShape]) -> list[str]:
        given = zip(self.operand_labels(len(shapes)), shapes, strict=True)
        lines = [f"{name} {shape}" for name, shape in given]
        return lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "..."]

    def canonical_attributes(self, given: dict[str, Any]) -> dict[str, Any]:
        """Attributes in declared order and canonical form, defaults filled in.

        Raises:
            AttributeValueError: unknown or missing names, values that the declaration rejects.
        """
        if self.fields:
            return self._canonical((), given)
        unknown = [name for name in given if name not in self.attributes]
        if unknown:
            raise explain(
                AttributeValueError,
                self.builder_name,
                no_attribute(unknown[0]),
                [f"{unknown[0]} = {given[unknown[0]]!r}"],
                all_attributes(self.attributes),
            )
        return {
            name: self._canonical_value(name, given.get(name, kind.default), kind)
            for name, kind in self.attributes.items()
        }

    def canonical_attribute(self, name: str, value: Any) -> Any:
        """The canonical form of one attribute.

        Raises:
            AttributeValueError: the declaration rejects the value.
        """
        declared = self.fields[name] if self.fields else self.attributes[name]
        return self._canonical_value(name, value, declared)

    def _check_count(self, count: int, shapes: Sequence[AnyShape]) -> None:
        names = self.operand_names
        variadic = bool(names) and names[-1].endswith("...")
        if count < len(names) - variadic or (count > len(names) and not variadic):
            raise explain(
                ShapeError,
                self.builder_name,
                f"{count} operands were given",
                [f"operand {i}: {shape}" for i, shape in enumerate(shapes)],
                f"It takes {', '.join(names) or 'none'}.",
            )

    def _refuse_dynamic(self, shapes: Sequence[AnyShape]) -> None:
        for index, shape in enumerate(shapes):
            if isinstance(shape, Shape) and shape.is_dynamic and index not in self.dynamic_operands:
                raise explain(
                    ShapeError,
                    self.builder_name,
                    f"operand {self.operand_labels(len(shapes))[index]} has a dynamic dimension",
                    [f"operand {i}: {each}" for i, each in enumerate(shapes)],
                    "It takes static sizes only: set each size back to its bound with "
                    "set_dimension_size(operand, bound, dimension), which fills up with zeros.",
                )

    def refuse(self, label: str, problem: str, advice: str) -> NoReturn:
        """Raises ShapeError for the check `label` (such as `C1`) of the class's docstring.

        The message shows the operands' shapes and the attributes.
        """
        raise self._refusal(ShapeError, label, problem, advice)

    def refuse_attribute(self, label: str, problem: str, advice: str) -> NoReturn:
        """Raises AttributeValueError for the check `label`, see `refuse`."""
        raise self._refusal(AttributeValueError, label, problem, advice)

    def _refusal(
        self,
        kind: type[ErrorType],
        label: str,
        problem: str,
        advice: str,
        operands: Sequence[str] = (),
    ) -> ErrorType:
        """The error; `infer`, which knows the operands, makes it again with these."""
        given = [*operands, *self._attribute_lines()]
        error = explain(kind, self.builder_name, f"({label}) {problem}", given, advice)
        error.refusal = self, kind, label, problem, advice
        return error

    def _attribute_lines(self) -> list[str]:
        own, fields = self.__dict__, self.fields.items()
        shown = [name for name, f in fields if own.get(name, f.default) is not f.default]
        return [f"{name} {_shown(own[name])}" for name in shown]

    def reject(self, label: str, problem: str, given: Sequence[str], advice: str) -> NoReturn:
        """Raises ShapeError for the check `label` (such as `C1`) of the class's docstring."""
        raise explain(ShapeError, self.builder_name, f"({label}) {problem}", given, advice)

    def reject_attribute(
        self, label: str, problem: str, given: Sequence[str], advice: str
    ) -> NoReturn:
        """Raises AttributeValueError for the check `label` of the class's docstring."""
        raise explain(AttributeValueError, self.builder_name, f"({label}) {problem}", given, advice)

    @classmethod
    def array_shapes(cls, shapes: Sequence[AnyShape]) -> Sequence[Shape]:
        """`shapes`, each checked to be an array's.

        Raises:
            ShapeError: one is a tuple or a token.
        """
        for name, shape in zip(cls.operand_labels(len(shapes)), shapes, strict=True):
            if not isinstance(shape, Shape):
                raise explain(
                    ShapeError,
                    cls.builder_name,
                    f"operand {name} is not an array",
                    [f"{name} {shape}"],
                    "Take the members out of a tuple with get_tuple_element.",
                )
        return shapes  # type: ignore[return-value]  # the loop above has checked each

    @classmethod
    def operand_labels(cls, count: int) -> list[str]:
        """A name for each of `count` operands."""
        names = list(cls.operand_names)
        if names and names[-1].endswith("..."):
            stem = names.pop().removesuffix("...")
            names += [f"{stem}[{i}]" for i in range(count - len(names))]
        return names[:count]

    def has_rule(self, rule: str) -> bool:
        """Whether the class defines `rule` itself or inherits it from a family."""
        return getattr(type(self), rule) is not getattr(Operation, rule)

    def __repr__(self) -> str:
        given = [f" {name}={_shown(self.__dict__.get(name))}" for name in self.fields]
        return f"<Operation {self.name}{''.join(given)}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self.fields:
            return type(self), tuple(self.values.values())
        module = type(self).__module__
        if self in registered(self.name):
            return operation_named, (self.name, module)
        # One that users do not build is a constant of its module.
        names = [name for name, each in vars(sys.modules[module]).items() if each is self]
        return names[0] if names else (type(self), ())


def _shown(value: Any) -> str:
    """An attribute's value in a message; programs by name."""
    return (repr(value) if getattr(value, "keeps_identity", False) else str(value))[:_MOST_SHOWN]
