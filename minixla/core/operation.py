"""The base class of operations, and the cached inference of result shapes."""

import keyword
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from minixla.core import errors
from minixla.core.data_flow import Edge
from minixla.core.errors import ErrorType, MinixlaError, ShapeError, explain
from minixla.core.linear import add_cotangents, instantiate
from minixla.core.operation_docstrings import check_text
from minixla.core.records import Record
from minixla.core.registry import REGISTRY as REGISTRY
from minixla.core.registry import full_name, operation_named, registered, role
from minixla.core.registry import register as register
from minixla.core.shapes import AnyShape, Shape, ShapeList
from minixla.core.sharding_rule import RuleBuilder, ShardingRule, pointwise_rule
from minixla.core.state import state as _state
from minixla.core.tracebacks import hide_frames

if TYPE_CHECKING:
    from minixla.core.hlo_text import HloEmitter
    from minixla.core.stablehlo_text import Emitter

Shapes = AnyShape | tuple[AnyShape, ...]
#: Names of values in text.
Names = Sequence[str]
#: None or a method.
_NO_HOOK: Any = None

#: The `linear_operands` of a variadic operation that is linear in all of them.
EVERY_OPERAND = range(sys.maxsize)
#: The `linear_operands` of an operation that is linear in each of two operands separately: a
#: product.
EACH_OPERAND = range(2)

# The number of inferences an operation caches; fewer if they keep programs alive.
_MOST_INFERRED = 4096
_MOST_RUN = 256
# The number of operands, and of characters of an attribute, that an error shows.
_MOST_LINES = 16
_MOST_SHOWN = 300

#: The advice for a missing derivative.
DERIVATIVE_ADVICE = "Wrap the operand or the call in mx.stop_gradient, or give the call a rule "
DERIVATIVE_ADVICE += "with mx.custom_jvp or mx.custom_vjp."
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[A-Z]+")


class Operation(Record):
    """Base class of operations: declarations and rules in one class.

    A subclass defines one operation; an instance is an immutable record of attributes, which are
    its fields (`minixla.core.attributes.attribute`). Equal attributes give the same object, so
    compare operations with `is`. Programs and constants among the attributes are compared by
    identity, and operations with a `Function` are always new objects. A call with operands applies
    the operation.

    Rules get operands in order. If an operation has one result, a rule takes and returns that one
    value; if `shape` returns a tuple, rules use tuples, too.

    Declarations:
        name: XLA's name, `DotGeneral`; default: the class's name. Outside XLA's namespace, the
            namespace is a prefix, `my.DotGeneral`, so that names never clash with XLA's.
        namespace: the namespace of the name; default: the class's top-level package, which is
            `xla` for minixla and minixla_ops.
        hlo_name, stablehlo_name: its names in HLO (`dot`) and StableHLO (`dot_general`).
        spec_names: its entries in XLA's operation semantics; default: its name. Several builders
            may make one operation (`Dot` and `DotGeneral`).
        operands: their names; if the last name ends in `...`, it is variadic.
        has_side_effect: whether it is never dropped or reordered. If this depends on the call, the
            operation has an attribute with that name.
        zero_derivative: why the derivative is zero everywhere (`piecewise constant`), or None.
        no_derivative: why no derivative exists, or None.
        missing_rules: why a rule is missing, by the rule's name.
        linear_operands: indices of the operands that it is jointly linear in (`add`), or None;
            EACH_OPERAND for a product, which is linear in each of its two operands.
        only_arrays: whether tuples and tokens are rejected before `shape` sees them.
        dynamic_operands: indices of the operands that may have dynamic dimensions: the rules are
            correct for sizes below the bounds.
        is_elementwise: whether each result element depends only on the operands' elements at the
            same position.
        is_cheap: whether a reverse derivative recomputes it from stored values rather than store
            its result.
    """

    name: ClassVar[str] = ""
    namespace: ClassVar[str] = ""
    hlo_name: ClassVar[str] = ""
    stablehlo_name: ClassVar[str | None] = None
    spec_names: ClassVar[tuple[str, ...]] = ()
    operands: ClassVar[Sequence[str]] = ()
    is_plain: ClassVar[bool] = True
    is_elementwise: ClassVar[bool] = False
    is_cheap: ClassVar[bool] = False
    # Result shapes by operand shapes, for each record.
    _inferred: ClassVar[dict[tuple[AnyShape, ...], Shapes]] = {}
    has_side_effect: ClassVar[bool] = False
    zero_derivative: ClassVar[str | None] = None
    no_derivative: ClassVar[str | None] = None
    missing_rules: ClassVar[dict[str, str]] = {}
    linear_operands: ClassVar[Sequence[int] | None] = None
    only_arrays: ClassVar[bool] = True
    dynamic_operands: ClassVar[Sequence[int]] = ()

    def __call__(self, /, *operands: object, **changed: object) -> Any:
        """Apply the operation, with some attributes changed; return the result or results."""
        operation = self.replace(**changed) if changed else self
        try:
            return _state.trace.process(operation, operands)
        except Exception as error:
            hide_frames(error)
            raise

    def changed(self, change: Callable[[object], object]) -> "Operation":
        """Return the operation with each attribute passed through `change`."""
        return self.replace(**{name: change(value) for name, value in self.values.items()})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        name = cls.__dict__.get("name", cls.__name__)
        cls.name = full_name(name, cls.namespace, cls.__module__)
        words = _WORD.findall(name)
        called = "_".join(words).lower()
        called = f"{called}_" if keyword.iskeyword(called) else called
        derived = {"builder_name": called, "hlo_name": "-".join(words).lower()}
        for attribute_name, value in {"spec_names": (cls.name,), **derived}.items():
            if attribute_name not in cls.__dict__:
                setattr(cls, attribute_name, value)
        #: True if its instructions never run a program, have a side effect or name devices.
        cls.is_plain = not (
            cls.has_side_effect
            or cls.runs_programs
            or cls.meshes is not Operation.meshes
            or "has_side_effect" in cls.fields
        )

    # Rules, in the order in which classes define them.

    def shape(self, *operands: Any) -> Shapes:
        """Return the result shape (or a tuple of shapes) for operand shapes.

        Raises:
            ShapeError, AttributeValueError: through `self.refuse` or `self.refuse_attribute`.
        """
        raise self.lacks("shape")

    def reference(self, *operands: Any) -> Any:
        """Compute the result array (or tuple) for operand arrays in NumPy; defines the meaning."""
        raise self.lacks("reference", advice="mx.reference needs it.")

    def stablehlo(
        self, emit: "Emitter", operands: Names, shapes: Sequence[Any], results: Sequence[Any], /
    ) -> Names:
        """Write the operation through `emit`, and return the names of its results."""
        if self.stablehlo_name is None:
            raise self.lacks("stablehlo", advice="The engine and mx.jit need it.")
        regions = [emit.region(computation) for computation in self.computations]
        name = f"stablehlo.{self.stablehlo_name}"
        return emit.operation(
            name, operands, shapes, results, regions, **self._written("stablehlo")
        )

    def _written(self, text: str) -> dict[str, Any]:
        """Return the attributes with their names and notation in `stablehlo` or `hlo` text."""
        key = f"_written_in_{text}"
        if key not in self.__dict__:
            written: dict[str, object] = {}
            # HLO writes programs last.
            for name, field in sorted(self.fields.items(), key=lambda x: x[1].kind.holds_programs):
                label, value = getattr(field, text), self.__dict__[name]
                if label is not None and (text == "hlo" or not field.kind.holds_programs):
                    text_of_value = None if value is None else getattr(field.kind, text)(value)
                    written.update(
                        text_of_value if type(text_of_value) is dict else {label: text_of_value}
                    )
            self.__dict__[key] = written
        return dict(self.__dict__[key])

    def hlo(
        self, emit: "HloEmitter", operands: Names, shapes: Sequence[Any], result: AnyShape, /
    ) -> str:
        """Write the operation in HLO text (`str(graph)`) through `emit`; return its name.

        By default, write one instruction, `hlo_name` with `hlo_attributes`. Unless there is exactly
        one result, `result` is a tuple shape.
        """
        return emit.instruction(self.hlo_name, operands, result, **self.hlo_attributes(shapes))

    def hlo_attributes(self, shapes: Sequence[Any], /) -> dict[str, object]:
        """Return the attributes with HLO's names and notation.

        Strings are HLO text; other values are printed as in HLO: tuples as `{1,2}`, graphs as the
        name of a computation. None omits an attribute. The default follows the declarations.
        """
        return self._written("hlo")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, /) -> Any:
        """Return the tangent of the result (or a tuple of tangents); None stands for zero.

        By default, apply a linear operation to tangents, or transpose the `vjp` rule.

        Args:
            primals: the operands.
            tangents: a tangent or None for each operand; at least one is not None.
            results: the results for `primals`.
        """
        if self.linear_operands is None:
            if not self.has_rule("vjp"):
                raise self.lacks("jvp", errors.DerivativeError, DERIVATIVE_ADVICE)
            from minixla.core.reverse import pushed_by_vjp  # it imports traces

            return pushed_by_vjp(self, primals, tangents, results)
        self._require_declared([tangent is not None for tangent in tangents])
        if self.jointly_linear:
            triples = enumerate(zip(primals, tangents, strict=True))
            linear = self.linear_operands
            return self(*[instantiate(t, p) if i in linear else p for i, (p, t) in triples])
        total = None
        for index in self.linear_operands:
            if tangents[index] is not None:
                mixed = [*primals[:index], tangents[index], *primals[index + 1 :]]
                total = add_cotangents(total, self(*mixed))
        return total

    def transpose(
        self, cotangents: Any, operands: Sequence[Any], linear: Sequence[bool], /
    ) -> Sequence[Any]:
        """Transpose the operation as a linear map of the operands marked in `linear`.

        Args:
            cotangents: the cotangent of the result (or a tuple, with None for zero).
            operands: the values of the other operands; of linear ones only the shape may be used.
            linear: marks the operands that are variables.

        Returns:
            A cotangent or None for each operand.
        """
        raise self.lacks("transpose", errors.DerivativeError, DERIVATIVE_ADVICE)

    def vjp(
        self, cotangents: Any, operands: Sequence[Any], results: Any, active: Sequence[bool], /
    ) -> Sequence[Any]:
        """Return the cotangents of the operands marked in `active` (None for the others).

        By default, transpose a linear operation. If an operation has neither this rule nor linear
        operands, its jvp rule is transposed.
        """
        self._require_declared(active)
        if self.jointly_linear:
            return self.transpose(cotangents, operands, active)
        indices = range(len(operands))
        return [
            self.transpose(cotangents, operands, [i == index for i in indices])[index]
            if active[index]
            else None
            for index in indices
        ]

    def _require_declared(self, active: Sequence[bool]) -> None:
        """Raise DerivativeError if a differentiated operand is not a linear one."""
        linear = self.linear_operands or ()
        if len(linear) >= len(active):
            return
        labels = zip(self.operand_labels(len(active)), active, strict=True)
        missing = [label for i, (label, flag) in enumerate(labels) if flag and i not in linear]
        if missing:
            problem = f"the operation has no derivative with respect to {', '.join(missing)}"
            kind = errors.DerivativeError
            raise explain(kind, self.builder_name, problem, advice=DERIVATIVE_ADVICE)

    def not_linear(self, *details: str) -> MinixlaError:
        """Build the error for a transpose where it is not linear; `details` state why."""
        problem = "a jvp rule applies the operation to a tangent, but it is not linear in it"
        advice = "A jvp rule must be linear in its tangents, because reverse mode transposes it."
        return explain(errors.DerivativeError, self.builder_name, problem, details, advice)

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /
    ) -> tuple[Any, Any]:
        """Apply the operation to a batch.

        Args:
            operands: the operands; some have one more dimension.
            dimensions: the batch dimension of each operand, or None.

        Returns:
            The result (or tuple of results) and its batch dimension (or a tuple; None if a result
            does not depend on the batch). The default runs the batch elements one by one.
        """
        return role("batch_by_loop")(self, operands, dimensions)

    @property
    def meshes(self) -> Iterable[Any]:
        """The meshes of devices that it names, which its users need."""
        return ()

    def sharding_rule(self, *operands: Any) -> ShardingRule | None:
        """Return which dimensions are sharded together for operand shapes; None if unknown.

        The default is the rule of element-wise operations. `self.sharding_factors(operands)` starts
        a rule, and its `build()` returns it.
        """
        if not operands or not self.is_elementwise:
            return None
        return pointwise_rule(operands, self.infer(operands))

    def sharding_factors(self, operands: tuple[AnyShape, ...]) -> RuleBuilder:
        """Return a builder of sharding rules, without factors, for operand shapes."""
        return RuleBuilder(operands, self.infer(operands))

    @property
    def split_by(self) -> str:
        """The component that partitions it over devices.

        `xla`; or `pieces` if XLA does not, and each device runs it on its shards by its sharding
        rule; or `nobody` if each device runs all of it.
        """
        return "xla"

    def data_flow(self, *operands: AnyShape) -> Sequence[Edge]:
        """Return the data-flow edges, along which shardings must agree; see `core.data_flow`.

        Args:
            operands: the operands' shapes.
        """
        return ()

    # Hooks for operations that hold programs: None, or a method of the class.

    #: `run(*operands)`: evaluates in Python instead of by the `reference` rule or the engine, if
    #: the current trace evaluates.
    #: `stage_operands(operands) -> (operation, operands)`: the form that a graph contains.
    #: `forward(primals, tangents) -> (results, tangents)`: the result and the jvp together.
    #: `enter(trace, operands)`: its results, with the programs that it runs entered by a trace.
    #: `linearize(operands, active) -> (results, pullback)`: the result and the vjp together.
    #: `dependent(variables)`: the results that depend on the marked operands. A jvp rule may
    #: apply it to tangents and other values together.
    #: `batch_within(trace, operands, dimensions)`: `batch` for functions that may read values of
    #: the batching trace.
    run = stage_operands = forward = enter = linearize = dependent = batch_within = _NO_HOOK

    def lacks(
        self, rule: str, kind: type[MinixlaError] = errors.TransformError, advice: str = ""
    ) -> MinixlaError:
        """Build the error for a call of a rule that the class lacks."""
        problem = f"the operation has no {rule} rule"
        if rule in self.missing_rules:
            return explain(kind, self.builder_name, f"{problem}: {self.missing_rules[rule]}")
        advice = f"Define the rule {rule} in the class {type(self).__name__}. {advice}".rstrip()
        return explain(kind, self.builder_name, problem, advice=advice)

    @property
    def jointly_linear(self) -> bool:
        """True if it is linear in its linear operands together, not only in each."""
        return self.linear_operands is not EACH_OPERAND

    def is_linear_in(self, variables: Sequence[bool]) -> bool:
        """Return whether it is jointly linear in the marked operands."""
        declared = self.linear_operands
        marked = [index for index, flag in enumerate(variables) if flag]
        if declared is None or not all(index in declared for index in marked):
            return False
        return self.jointly_linear or len(marked) == 1

    # Methods that the framework calls.

    def infer(self, shapes: tuple[AnyShape, ...]) -> Shapes:
        """Return the result shapes for operand shapes; they are cached."""
        inferred = self._inferred.get(shapes)
        return self._inference(shapes) if inferred is None else inferred

    def _inference(self, shapes: tuple[AnyShape, ...]) -> Shapes:
        self._check_count(shapes)
        if self.only_arrays:
            self.array_shapes(shapes)
        self._refuse_dynamic(shapes)
        try:
            shapes_found = self.shape(*shapes)
        except MinixlaError as error:
            pairs = zip(self.operand_labels(len(shapes)), shapes, strict=True)
            details = [f"{name} {shape}" for name, shape in pairs]
            if len(details) > _MOST_LINES:
                details[_MOST_LINES - 1 :] = ["..."]
            if isinstance(error, errors.SizeError):
                raise errors.too_large(self.builder_name, error.problem, details) from None
            if error.refusal is None or error.refusal[0] is not self:
                raise
            raise self._refusal(*error.refusal[1:], operands=details) from None
        if len(self._inferred) >= (_MOST_RUN if self.keeps_identity else _MOST_INFERRED):
            self._inferred.clear()
        self._inferred[shapes] = shapes_found
        return shapes_found

    def _check_count(self, shapes: ShapeList) -> None:
        names, count = self.operands, len(shapes)
        variadic = bool(names) and names[-1].endswith("...")
        if count < len(names) - variadic or (count > len(names) and not variadic):
            problem = f"got {count} operands"
            advice = f"It takes {', '.join(names) or 'none'}."
            details = [f"operand {i}: {shape}" for i, shape in enumerate(shapes)]
            raise explain(ShapeError, self.builder_name, problem, details, advice)

    def _refuse_dynamic(self, shapes: ShapeList) -> None:
        for index, shape in enumerate(shapes):
            if shape.is_dynamic and index not in self.dynamic_operands:
                label = self.operand_labels(len(shapes))[index]
                problem = f"operand {label} has a dynamic dimension"
                details = [f"operand {i}: {shape}" for i, shape in enumerate(shapes)]
                advice = "Only static sizes are supported: set each size back to its bound, padded "
                advice += "with zeros, with set_dimension_size(operand, bound, dimension)."
                raise explain(ShapeError, self.builder_name, problem, details, advice)

    def refuse(self, label: str, problem: str, advice: str = "") -> NoReturn:
        """Raise ShapeError for the check `label` (such as `C1`) of the class's docstring.

        The message shows the operands' shapes and the attributes. Without advice, it ends with the
        docstring's text of the check.
        """
        raise self._refusal(ShapeError, label, problem, advice)

    def refuse_attribute(self, label: str, problem: str, advice: str = "") -> NoReturn:
        """Raise AttributeValueError for the check `label`; see `refuse`."""
        raise self._refusal(errors.AttributeValueError, label, problem, advice)

    def _refusal(
        self, kind: type[ErrorType], label: str, problem: str, advice: str, operands: Names = ()
    ) -> ErrorType:
        """Build the error; `infer` builds it again with the operands."""
        value_of = self.__dict__.get
        changed = [n for n, f in self.fields.items() if value_of(n, f.default) is not f.default]
        details = [*operands, *[f"{name} {shown_attribute(value_of(name))}" for name in changed]]
        advice = advice or check_text(type(self), label)
        error = explain(kind, self.builder_name, f"({label}) {problem}", details, advice)
        error.refusal = self, kind, label, problem, advice
        return error

    @classmethod
    def array_shapes(cls, shapes: ShapeList) -> Sequence[Shape]:
        """Return `shapes` after checking that all are arrays; raise ShapeError otherwise."""
        for name, shape in zip(cls.operand_labels(len(shapes)), shapes, strict=True):
            if not isinstance(shape, Shape):
                problem = f"operand {name} must be an array"
                advice = "Extract elements of a tuple with get_tuple_element."
                raise explain(ShapeError, cls.builder_name, problem, [f"{name} {shape}"], advice)
        return shapes  # type: ignore[return-value]  # the loop above has checked each

    @classmethod
    def operand_labels(cls, count: int) -> list[str]:
        """Return a name for each of `count` operands; lists of operands have equal lengths."""
        lists = [name for name in cls.operands if name.endswith("...")]
        alone = len(cls.operands) - len(lists)
        length, more = divmod(max(count - alone, 0), len(lists) or 1)
        labels = []
        for name in cls.operands:
            stem, is_list = name.removesuffix("..."), name in lists
            members = range(length + (lists.index(name) < more)) if is_list else ()
            labels += [f"{stem}[{i}]" for i in members] if is_list else [name]
        return labels[:count]

    @classmethod
    def has_rule(cls, rule: str) -> bool:
        """Return whether the class defines `rule` or inherits it from a base class."""
        return getattr(cls, rule) is not getattr(Operation, rule)

    def __repr__(self) -> str:
        details = [f" {name}={shown_attribute(self.__dict__.get(name))}" for name in self.fields]
        return f"<Operation {self.name}{''.join(details)}>"

    def __reduce__(self) -> tuple[object, ...]:
        kind, values = type(self), tuple(self.values.values())
        if registered(self.name) is kind:
            return _registered, (self.name, kind.__module__, values)
        return kind, values


def _registered(name: str, module: str, values: tuple[object, ...]) -> Operation:
    return operation_named(name, module)(*values)


def shown_attribute(value: object) -> str:
    """Show an attribute's value in a message; programs are shown by name."""
    return (repr(value) if getattr(value, "keeps_identity", False) else str(value))[:_MOST_SHOWN]
