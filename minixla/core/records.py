"""Records: objects whose fields are attributes, with one object for equal attributes."""

from collections.abc import Hashable, Iterable, MutableMapping
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform
from weakref import WeakValueDictionary

from minixla.core.attributes import Field, Function, Integer, attribute, exact
from minixla.core.errors import AttributeValueError, explain
from minixla.core.tracebacks import hide_frames

if TYPE_CHECKING:
    from minixla.core.graph import Graph

# The number of cached records of a class, by arguments; 0 if they contain programs.
_MOST_RECORDS = 4096
_RECORDING = RLock()
_NAMED = object()


@dataclass_transform(eq_default=False, field_specifiers=(attribute,))
class Record:
    """Base class of operations: immutable records of attributes."""

    builder_name: ClassVar[str] = ""
    #: The attributes of the class and its bases by name, except those that a subclass fixes.
    fields: ClassVar[dict[str, Field]] = {}
    computations: ClassVar[tuple["Graph", ...]] = ()  #: Programs in the attributes, also in tuples.
    is_ambiguous: ClassVar[bool] = False  #: True if different values may be equal: 0.0, -0.0.
    keeps_identity: ClassVar[bool] = False  #: True if some attribute is compared by identity.
    runs_programs: ClassVar[bool] = False  #: True if some attributes contain programs.
    is_unique: ClassVar[bool] = False  #: True if each record is a new object.
    # True if arguments are compared exactly, such as 1 and True, which the kind rejects. For lists
    # of integers, which are the most common, this would take more time than everything else.
    _is_exact: ClassVar[bool] = False
    # True if all attributes that are compared by identity are programs.
    _counts_programs: ClassVar[bool] = False
    # Live records by their attributes, and by arguments. The dictionary of records is created with
    # the first record.
    _records: ClassVar[WeakValueDictionary[object, Any] | None] = None
    _given: ClassVar[MutableMapping[object, Any]] = {}

    def __new__(cls, /, *values: object, **named: object) -> Self:
        """Return the operation with some attributes, in the order of `fields` or by name.

        Raises:
            AttributeValueError: unknown or missing names, values that the declaration rejects.
        """
        if cls.is_unique:
            return cls._made(cls._canonical(values, named))
        key: Hashable = (_NAMED, values, tuple(named.items())) if named else values
        if cls._is_exact:
            key = exact(key)
        try:
            record = cls._given.get(key)
        except TypeError:  # an unhashable argument, such as a list
            key = exact(key)
            try:
                record = cls._given.get(key)
            except TypeError:
                record = key = None
        if record is not None:
            return record
        try:
            return cls._record(values, named, key)
        except Exception as error:
            hide_frames(error)
            raise

    @classmethod
    def _record(cls, values: tuple[object, ...], named: dict[str, object], key: Hashable) -> Self:
        canonical = cls._canonical(values, named)
        values_key = exact(tuple(canonical.values()))
        with _RECORDING:
            if cls._records is None:
                cls._records = WeakValueDictionary()
            record = cls._records.get(values_key)
            if record is None:
                record = cls._records[values_key] = cls._made(canonical)
            is_once = any(hasattr(value, "__next__") for value in (*values, *named.values()))
            # The record keeps a program alive that its key compares by identity.
            is_kept = cls._counts_programs or not cls.keeps_identity
            if key is not None and is_kept and not is_once:
                if len(cls._given) >= _MOST_RECORDS:
                    cls._given.clear()
                cls._given[key] = record
        return record

    @classmethod
    def _made(cls, canonical: dict[str, object]) -> Self:
        """Create an object from attributes in canonical form."""
        made = object.__new__(cls)
        fields_of = made.__dict__
        fields_of.update(canonical)
        fields_of["_inferred"] = {}
        if cls.runs_programs:
            fields_of["computations"] = _programs_in(canonical.values())
        return made

    @classmethod
    def _canonical(cls, values: tuple[object, ...], named: dict[str, object]) -> dict[str, Any]:
        """Return the attributes in declared order and canonical form, including defaults."""
        fields, subject = cls.fields, cls.builder_name
        by_name = dict(zip(fields, values, strict=False))
        wrong = next((name for name in named if name not in fields or name in by_name), None)
        if wrong is not None or len(values) > len(fields):
            problem, texts = f"got {len(values)} attributes", list(map(repr, values))
            if wrong is not None:
                problem, texts = f"unknown attribute {wrong!r}", [f"{wrong} = {named[wrong]!r}"]
            if wrong in by_name:
                problem = f"attribute {wrong} must not be passed twice"
            advice = f"Its attributes are: {', '.join(fields) or 'none'}."
            texts = [text[:200] for text in texts]
            raise explain(AttributeValueError, subject, problem, texts, advice)
        by_name.update(named)
        return {
            name: field.checked(subject, by_name.get(name, field.default))
            for name, field in fields.items()
        }

    def __init_subclass__(cls) -> None:
        """Collect the attributes."""
        fields: dict[str, Field] = {}
        for base in reversed(cls.__bases__):
            fields.update(getattr(base, "fields", {}))
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        for name in fields.keys() & cls.__dict__.keys() - declared.keys():
            del fields[name]
        for name, value in declared.items():
            is_inherited = any(name in vars(base) for base in cls.__mro__[1:])
            if is_inherited and name != "has_side_effect":
                raise ValueError(f"class {cls.__name__}: operations already have a {name!r}")
            fields[name] = value.named(name)
            delattr(cls, name)
        cls.fields = fields
        kinds = [field.kind for field in fields.values()]
        by_identity = [kind for kind in kinds if kind.keeps_identity]
        cls.is_ambiguous = any(kind.is_ambiguous for kind in kinds)
        cls.is_unique = any(isinstance(kind, Function) for kind in kinds)
        cls.keeps_identity = bool(by_identity)
        cls.runs_programs = any(kind.holds_programs for kind in kinds)
        cls._counts_programs = cls.runs_programs and all(k.holds_programs for k in by_identity)
        has_integers = any(isinstance(kind, Integer) for kind in kinds)
        cls._is_exact = cls.is_ambiguous or has_integers or cls._counts_programs
        cls._records = None
        cls._given = WeakValueDictionary() if cls._counts_programs else {}

    @cached_property
    def is_bare(self) -> bool:
        """True if all attributes are None."""
        return all(value is None for value in self.values.values())

    @property
    def values(self) -> dict[str, Any]:
        """The attributes by name, in the order of `fields`."""
        fields_of = self.__dict__
        return {name: fields_of[name] for name in self.fields}

    def replace(self, /, **changed: object) -> Self:
        """Return the operation with some attributes changed."""
        return type(self)(**{**self.values, **changed})

    def __copy__(self, memo: object = None) -> Self:
        return self

    __deepcopy__ = __copy__


def _programs_in(values: Iterable[object]) -> tuple["Graph", ...]:
    programs: list[Any] = []
    for value in values:
        if type(value) is tuple:
            programs.extend(_programs_in(value))
        elif hasattr(value, "instructions"):
            programs.append(value)
    return tuple(programs)
