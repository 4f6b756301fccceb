"""The base class of operations, their registry, and the cached inference of result shapes."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from minixla.core.attributes import REQUIRED, Attribute, spelling
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
from minixla.core.shapes import AnyShape, Shape

if TYPE_CHECKING:
    from minixla.core.hlo_text import HloEmitter
    from minixla.core.stablehlo_text import Emitter

__all__ = ["EVERY_OPERAND", "REGISTRY", "Operation", "operation_named", "register"]

Shapes = AnyShape | tuple[AnyShape, ...]
OperationClass = TypeVar("OperationClass", bound="Operation")
#: None or a method, whose attributes differ from class to class.
Hook = Any

#: The `linear_operands` of a variadic operation that is linear in all of them.
EVERY_OPERAND = range(sys.maxsize)

#: Every registered operation by XLA's name (`DotGeneral`).
REGISTRY: dict[str, Operation] = {}


# How many inferences an operation remembers; fewer where they keep programs alive.
_MOST_INFERRED = 4096
_MOST_RUN = 256

_DERIVATIVE_ADVICE = "Or wrap the call in mx.custom_jvp, mx.custom_vjp or mx.stop_gradient."


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[A-Z]+", name)


class Operation:
    """What an operation is: declarations and rules, side by side.

    A subclass is the whole definition of one operation; `register` makes its single instance.
    Rules get operands in order and attributes as keywords. Where an operation has one result, a
    rule takes and gives that one value; where `shape` gives a tuple, rules do too. Positional
    arguments of rules are positional only: an attribute may have the same name (`dimensions`).

    Declarations:
        name: XLA's name, `DotGeneral`; default: the class's name.
        hlo_name, stablehlo_name: its names in HLO (`dot`) and StableHLO (`dot_general`).
        spec_names: the entries of XLA's operation semantics that it is; default: its name. Several
            builders may make one operation (`Dot` and `DotGeneral`).
        operand_names: for error messages and documents; a last name ending in `...` is variadic.
        attributes: the declaration of each attribute by name.
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
        spans_devices: runs on several devices, by `run`, so that no program can hold it.
        reads_bits: depends on how its operands' types represent values, so that the reference
            evaluates it in these types even where it computes everything else in double.
    """

    #: The one object of the class, made by `register`.
    instance: ClassVar[Any] = None
    name: ClassVar[str] = ""
    builder_name: ClassVar[str] = ""
    hlo_name: ClassVar[str] = ""
    stablehlo_name: ClassVar[str | None] = None
    spec_names: ClassVar[tuple[str, ...]] = ()
    operand_names: ClassVar[tuple[str, ...]] = ()
    attributes: ClassVar[dict[str, Attribute]] = {}
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

    def __init__(self) -> None:
        self._inferred: dict[Any, tuple[Shapes, dict[str, Any]]] = {}
        #: Whether attributes that differ may be equal, such as 0.0 and -0.0.
        self.is_ambiguous = any(each.is_ambiguous for each in self.attributes.values())
        self._keeps_identity = any(each.keeps_identity for each in self.attributes.values())
        #: Whether no instruction of it runs a program, has a side effect or spans devices.
        self.is_plain = not (
            self.has_side_effect
            or self._keeps_identity
            or self.spans_devices
            or "has_side_effect" in self.attributes
        )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        if "spec_names" not in cls.__dict__:
            cls.spec_names = (cls.name,)
        if "builder_name" not in cls.__dict__:
            cls.builder_name = "_".join(_words(cls.name)).lower()
        if "hlo_name" not in cls.__dict__:
            cls.hlo_name = "-".join(_words(cls.name)).lower()

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
        return emit.operation(
            f"stablehlo.{self.stablehlo_name}", operands, shapes, results, **attributes
        )

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
        the name of a computation; None leaves one out. The default gives them as they are.
        """
        return attributes

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
    run: Hook = None
    #: `stage_operands(operands, attributes)`: both, as a graph holds them.
    stage_operands: Hook = None
    #: `forward(primals, tangents, **attributes) -> (results, tangents)`: result and jvp in one.
    forward: Hook = None
    #: `linearize(operands, active, **attributes) -> (results, pullback)`: result and vjp in one.
    linearize: Hook = None
    #: `dependent(variables, **attributes)`: which results depend on the marked operands, where a
    #: jvp rule may apply it to tangents beside values that they do not depend on.
    dependent: Hook = None
    #: `batch_within(trace, operands, dimensions, **attributes)`: `batch` for functions that may
    #: read values of the batching trace, which is told.
    batch_within: Hook = None

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
        key = (shapes, tuple(attributes.items())) if attributes else shapes
        try:
            if self.is_ambiguous:
                key = (key, spelling(tuple(attributes.values())))
            found = self._inferred.get(key)
        except TypeError:  # an unhashable attribute, such as a list
            attributes = self.canonical_attributes(attributes)
            hash(tuple(attributes.values()))  # else this would not end
            return self.infer(shapes, attributes)
        if found is None:
            attributes = self.canonical_attributes(attributes)
            self._check_count(len(shapes), shapes)
            if Shape.any_dynamic:
                self._refuse_dynamic(shapes)
            try:
                found = (self.shape(*shapes, **attributes), attributes)
            except SizeError as error:
                raise self._too_large(error, shapes) from None
            if len(self._inferred) >= (_MOST_RUN if self._keeps_identity else _MOST_INFERRED):
                self._inferred.clear()
            self._inferred[key] = found
        elif self._keeps_identity:
            return found[0], self.canonical_attributes(attributes)
        return found

    def _too_large(self, error: SizeError, shapes: Sequence[AnyShape]) -> SizeError:
        """The error of a shape that cannot be, for this operation."""
        given = zip(self.operand_labels(len(shapes)), shapes, strict=True)
        lines = [f"{name} {shape}" for name, shape in given]
        return too_large(self.builder_name, error.problem, lines)

    def canonical_attributes(self, given: dict[str, Any]) -> dict[str, Any]:
        """Attributes in declared order and canonical form, defaults filled in.

        Raises:
            AttributeValueError: unknown or missing names, values that the declaration rejects.
        """
        unknown = [name for name in given if name not in self.attributes]
        if unknown:
            raise explain(
                AttributeValueError,
                self.builder_name,
                f"there is no attribute {unknown[0]!r}",
                [f"{unknown[0]} = {given[unknown[0]]!r}"],
                f"Its attributes are: {', '.join(self.attributes) or 'none'}.",
            )
        canonical = {}
        for name, declaration in self.attributes.items():
            value = given.get(name, declaration.default)
            if value is REQUIRED:
                raise explain(
                    AttributeValueError,
                    self.builder_name,
                    f"attribute {name} is missing",
                    advice=f"Give {name}: {declaration.description}.",
                )
            canonical[name] = self.canonical_attribute(name, value)
        return canonical

    def canonical_attribute(self, name: str, value: Any) -> Any:
        """The canonical form of one attribute.

        Raises:
            AttributeValueError: the declaration rejects the value.
        """
        declaration = self.attributes[name]
        if value is declaration.default:
            return value
        try:
            return declaration.canonical(value)
        except MinixlaError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise explain(
                AttributeValueError,
                self.builder_name,
                f"attribute {name} has a value that it cannot take",
                [f"{name} = {value!r}", str(error)],
                f"{name} must be {declaration.description}.",
            ) from None

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

    def reject(self, label: str, problem: str, given: Sequence[str], advice: str) -> NoReturn:
        """Raises ShapeError for the check `label` (such as `C1`) of the class's docstring."""
        raise explain(ShapeError, self.builder_name, f"({label}) {problem}", given, advice)

    def reject_attribute(
        self, label: str, problem: str, given: Sequence[str], advice: str
    ) -> NoReturn:
        """Raises AttributeValueError for the check `label` of the class's docstring."""
        raise explain(AttributeValueError, self.builder_name, f"({label}) {problem}", given, advice)

    def array_shapes(self, shapes: Sequence[AnyShape]) -> Sequence[Shape]:
        """`shapes`, each checked to be an array's.

        Raises:
            ShapeError: one is a tuple or a token.
        """
        for name, shape in zip(self.operand_labels(len(shapes)), shapes, strict=True):
            if not isinstance(shape, Shape):
                raise explain(
                    ShapeError,
                    self.builder_name,
                    f"operand {name} is not an array",
                    [f"{name} {shape}"],
                    "Take the members out of a tuple with get_tuple_element.",
                )
        return shapes  # type: ignore[return-value]  # the loop above has checked each

    def operand_labels(self, count: int) -> list[str]:
        """A name for each of `count` operands."""
        names = list(self.operand_names)
        if names and names[-1].endswith("..."):
            stem = names.pop().removesuffix("...")
            names += [f"{stem}[{i}]" for i in range(count - len(names))]
        return names[:count]

    def has_rule(self, rule: str) -> bool:
        """Whether the class defines `rule` itself or inherits it from a family."""
        return getattr(type(self), rule) is not getattr(Operation, rule)

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        module = type(self).__module__
        if REGISTRY.get(self.name) is self:
            return operation_named, (self.name, module)
        # One that users do not build is a constant of its module.
        names = [name for name, each in vars(sys.modules[module]).items() if each is self]
        return names[0] if names else (type(self), ())


def register(cls: type[OperationClass]) -> type[OperationClass]:
    """Class decorator: makes the operation's one instance and puts it into the registry.

    The instance is the class's attribute `instance`.

    Raises:
        ValueError: another operation has the name, or the class has no docstring.
    """
    if cls.name in REGISTRY:
        raise ValueError(f"an operation named {cls.name} is registered already")
    if not inspect.getdoc(cls):
        raise ValueError(f"operation {cls.name} has no docstring")
    instance = cls()
    cls.instance = instance
    REGISTRY[cls.name] = instance
    return cls


def operation_named(name: str, module: str | None = None) -> Operation:
    """The registered operation of XLA's name `name`.

    Args:
        name: the name.
        module: what registers it, if that is not loaded yet.

    Raises:
        KeyError: there is none.
    """
    if name not in REGISTRY and module is not None:
        importlib.import_module(module)
    return REGISTRY[name]
