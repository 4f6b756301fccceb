"""Records: objects whose fields are attributes, one object for equal attributes."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform
from weakref import WeakValueDictionary

from minixla.core.attributes import (
    REQUIRED,
    Attribute,
    Field,
    Integer,
    attribute,
    exact,
    named_field,
)
from minixla.core.errors import AttributeValueError, MinixlaError, explain
from minixla.core.tracebacks import hide_frames

if TYPE_CHECKING:
    from minixla.core.graph import Graph

# How many records of a class are kept alive for what callers give; none where they hold programs.
_MOST_RECORDS = 4096
_RECORDING = RLock()
_NAMED = object()


@dataclass_transform(eq_default=False, field_specifiers=(attribute,))
class Record:
    """Base class of operations: what their objects are made of.

    Attributes:
        fields: the declaration of each attribute by name, found in the class and its bases; what a
            member sets to a value is no attribute of it any more.
        is_bare: whether no attribute is given, or none but None.
        computations: the programs among the attributes, those in tuples too.
        is_ambiguous: whether attributes that differ may be equal, such as 0.0 and -0.0.
        keeps_identity: whether some attribute counts by identity.
        holds_programs: whether some do, all of which are programs.
        is_unique: whether each has an object of its own, which nobody finds again.
    """

    builder_name: ClassVar[str] = ""
    fields: ClassVar[dict[str, Field]] = {}
    attributes: ClassVar[dict[str, Attribute]] = {}
    computations: ClassVar[tuple[Graph, ...]] = ()
    is_bare: ClassVar[bool] = True
    is_ambiguous: ClassVar[bool] = False
    keeps_identity: ClassVar[bool] = False
    holds_programs: ClassVar[bool] = False
    is_unique: ClassVar[bool] = False
    # Whether what is given is told apart exactly, also 1 and True, which the kind refuses. In lists
    # of integers, which calls have most, this would take more time than all else.
    _is_exact: ClassVar[bool] = False
    _runs_programs: ClassVar[bool] = False
    # By their attributes, while they live, and by what callers gave.
    _records: ClassVar[WeakValueDictionary[Any, Any]] = WeakValueDictionary()
    _given: ClassVar[MutableMapping[Any, Any]] = {}

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """The operation with some attributes, in the order of `fields` or by name.

        Raises:
            AttributeValueError: unknown or missing names, values that the declaration rejects.
        """
        if cls.is_unique:
            return cls._made(cls._canonical(values, named))
        key: Any = (_NAMED, values, tuple(named.items())) if named else values
        if cls._is_exact:
            key = exact(key)
        try:
            found = cls._given.get(key)
        except TypeError:  # an unhashable attribute: a list, or what is none
            key = exact(key)
            try:
                found = cls._given.get(key)
            except TypeError:
                found = key = None
        if found is not None:
            return found
        try:
            return cls._record(values, named, key)
        except Exception as error:
            hide_frames(error)
            raise

    @classmethod
    def _record(cls, values: tuple[Any, ...], named: dict[str, Any], key: Any) -> Self:
        canonical = cls._canonical(values, named)
        own = exact(tuple(canonical.values()))
        with _RECORDING:
            record = cls._records.get(own)
            if record is None or cls.attributes:
                record = cls._records[own] = cls._made(canonical)
            is_once = any(hasattr(each, "__next__") for each in (*values, *named.values()))
            # A program's key is its identity: it is that of the record, and lives as long.
            is_kept = cls.holds_programs or not cls.keeps_identity
            if key is not None and is_kept and not (is_once or cls.attributes):
                if len(cls._given) >= _MOST_RECORDS:
                    cls._given.clear()
                cls._given[key] = record
        return record

    @classmethod
    def _made(cls, canonical: dict[str, Any]) -> Self:
        """A new object of attributes in canonical form."""
        made = cls._blank()
        own = made.__dict__
        own.update(canonical)
        if any(value is not None for value in canonical.values()):
            own["is_bare"] = False
        if cls._runs_programs:
            own["computations"] = _programs_in(canonical.values())
        return made

    @classmethod
    def _blank(cls) -> Self:
        """An object without attributes: it stands for the operation where nothing applies it."""
        blank = object.__new__(cls)
        blank.__dict__["_inferred"] = {}
        return blank

    @classmethod
    def _canonical(cls, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Attributes in declared order and canonical form, defaults filled in."""
        if len(values) > len(cls.fields):
            raise explain(
                AttributeValueError,
                cls.builder_name,
                f"{len(values)} attributes were given",
                [repr(value)[:200] for value in values],
                all_attributes(cls.fields),
            )
        given = dict(zip(cls.fields, values, strict=False))
        for name, value in named.items():
            if name not in cls.fields or name in given:
                problem = "is given twice" if name in given else ""
                problem = f"attribute {name} {problem}" if problem else no_attribute(name)
                lines = [f"{name} = {value!r}"[:200]]
                advice = all_attributes(cls.fields)
                raise explain(AttributeValueError, cls.builder_name, problem, lines, advice)
            given[name] = value
        canonical = {}
        for name, field in cls.fields.items():
            value = given.get(name, field.default)
            if value is not field.default or value is REQUIRED:
                value = cls._canonical_value(name, value, field)
            canonical[name] = value
        return canonical

    @classmethod
    def _canonical_value(cls, name: str, value: Any, declared: Field | Attribute) -> Any:
        kind = declared.kind if isinstance(declared, Field) else declared
        if value is REQUIRED:
            raise explain(
                AttributeValueError,
                cls.builder_name,
                f"attribute {name} is missing",
                advice=f"Give {name}: {kind.description}.",
            )
        if value is declared.default:
            return value
        try:
            return kind.canonical(value)
        except MinixlaError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            or_none = (
                ", or None" if isinstance(declared, Field) and declared.default is None else ""
            )
            raise explain(
                AttributeValueError,
                cls.builder_name,
                f"attribute {name} has a value that it cannot take",
                [f"{name} = {value!r}", str(error)],
                f"{name} must be {kind.description}{or_none}.",
            ) from None

    @classmethod
    def _declare(cls) -> None:
        """Collects the attributes."""
        fields: dict[str, Field] = {}
        for base in reversed(cls.__bases__):
            fields.update(getattr(base, "fields", {}))
        for name, value in list(cls.__dict__.items()):
            if not isinstance(value, Field):
                fields.pop(name, None)
                continue
            inherited = {each for base in cls.__mro__[1:] for each in vars(base)}
            if name in inherited - {"has_side_effect"}:
                raise ValueError(f"class {cls.__name__}: an operation has a {name!r} already")
            fields[name] = named_field(name, value)
            delattr(cls, name)
        cls.fields = fields
        kinds = [field.kind for field in fields.values()]
        by_identity = [kind for kind in kinds if kind.keeps_identity]
        cls.holds_programs = bool(by_identity) and all(kind.holds_programs for kind in by_identity)
        is_exact = any(kind.is_ambiguous or isinstance(kind, Integer) for kind in kinds)
        cls._is_exact = is_exact or cls.holds_programs
        cls._runs_programs = any(kind.holds_programs for kind in kinds)
        cls._records = WeakValueDictionary()
        cls._given = WeakValueDictionary() if cls.holds_programs else {}

    @property
    def values(self) -> dict[str, Any]:
        """The attributes by name, in the order of `fields`."""
        own = self.__dict__
        return {name: own[name] for name in self.fields}

    def replace(self, **changed: Any) -> Self:
        """The operation with some attributes changed."""
        return type(self)(**{**self.values, **changed})

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def no_attribute(name: str) -> str:
    """What is wrong with a name that no attribute has."""
    return f"there is no attribute {name!r}"


def all_attributes(names: Iterable[str]) -> str:
    """What to do about it."""
    return f"Its attributes are: {', '.join(names) or 'none'}."


def _programs_in(values: Iterable[Any]) -> tuple[Graph, ...]:
    found: list[Any] = []
    for value in values:
        if type(value) is tuple:
            found.extend(_programs_in(value))
        elif hasattr(value, "instructions"):
            found.append(value)
    return tuple(found)
