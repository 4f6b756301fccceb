"""The rules by platform and operation, and the set of disabled rules."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, ElementType
from minixla.core.errors import AttributeValueError, explain
from minixla.core.graph import Value
from minixla.core.operation import Operation
from minixla.core.state import held, state
from minixla.core.tracing import default_trace

#: Platform names by alias.
_ALIASES = {"gpu": "cuda"}
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
#: The packages of rules: `common` has the rules of several platforms.
_PACKAGES = ("common", "cpu", "cuda", "tpu")


class Target(NamedTuple):
    """The platform and devices that a program is lowered for.

    Attributes:
        platform: `cpu`, `cuda`, `rocm` or `tpu`.
        device_count: the number of devices that the program may be split over.
        for_export: whether the program is written to a file and may run on another machine.
        calls_kernels: whether the program may call compiled code of this package.
        is_constant: `is_constant(value)`: whether a value of the graph depends on no input, so that
            XLA may compute it during compilation. The pass sets it for each graph.
        array: `array(value)`: the numbers of a constant, or None if they are not known.
        note: `note(value, name)`: the result of the function in `NOTES` for the value that is
            passed to an input of a called program.
    """

    platform: str
    device_count: int = 1
    for_export: bool = False
    calls_kernels: bool = False
    is_constant: Callable[[Value], bool] = lambda value: value.literal is not None
    array: Callable[[Value], np.ndarray | None] = lambda value: None
    note: Callable[[Value, str], Any] = lambda value, name: None


#: Values of the graph for conditions; traced values for rules.
Operands = Sequence[Any]
#: `when(operation, operands, target)`: whether a rule applies.
Condition = Callable[[Any, Operands, Target], bool]


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """A replacement for some instructions on one platform.

    Attributes:
        name: the name of its function.
        platform: the platform that the rule applies to.
        operations: the classes of operations.
        element_types: the element types of the first operand, or of a constant; None for all.
        folds: whether the reference computes the result if the numbers of all operands are known.
        reads_graph: whether `replace` reads the graph's values that its operands come from.
        when: whether it applies to an operation and its operands.
        replace: `replace(operation, operands, target)` applies other operations to the operands,
            which are traced values, and returns the result (or tuple of results).
    """

    name: str
    platform: str
    operations: tuple[type[Operation], ...]
    element_types: Collection[ElementType] | None
    folds: bool
    reads_graph: bool
    when: Condition
    replace: Callable[..., Any]


#: Functions `note(value, target)` by name: facts about values that rules need in called programs.
NOTES: dict[str, Callable[[Value, Target], Any]] = {}

#: Rules by operation and by the element type of the first operand, if it is an array.
Table = dict[type[Operation], dict[ElementType | None, list[Rule]]]

_RULES: dict[str, dict[str, Rule]] = {}
#: A context manager that `disabled` enters with the names of the disabled rules. The engine sets
#: it, so that these names are part of the key of compiled programs.
key_of_programs: list[Callable[[Any], Any]] = [nullcontext]


def legalize(
    operations: type[Operation] | Iterable[type[Operation]],
    platform: str | Iterable[str],
    *,
    element_types: Collection[ElementType] | None = None,
    folds: bool = False,
    reads_graph: bool = False,
    when: Condition = lambda operation, operands, target: True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the replacement of an operation on a platform.

    The function takes the operation, its operands as traced values, and the target. It returns the
    result (or tuple of results) that it computes with other operations. The pass does not apply a
    rule to the instructions that the same rule creates. Reducers are not changed.

    Args:
        operations: a class of operations, or several.
        platform: the platform that the rule applies to, `cpu`, `gpu`, `rocm` or `tpu`, or several.
        element_types: the element types of the first operand for which `when` is called; default:
            all. Operations on other types cost no time.
        folds: whether the pass computes the result with the operation's `reference` rule if the
            numbers of all operands are known: for operations that XLA folds incorrectly.
        reads_graph: whether the function reads constants (`target.array(operand)`) or the graph's
            values that its operands come from. Other replacements are cached by operation and
            shapes.
        when: `when(operation, operands, target)` returns whether the rule applies; default: always.
            Operands are Values of the graph: `literal` is a constant's value, `instruction` the
            producer.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        ValueError: the platform already has a rule with the name of the function.

    Example:
        >>> from minixla.legalize import legalize
        >>> @legalize(mx.core.operation_named("Tan"), "rocm")
        ... def tangent_by_quotient(operation, operands, target):
        ...     return ops.sin(*operands) / ops.cos(*operands)
    """
    platforms = [platform_of(x) for x in ([platform] if isinstance(platform, str) else platform)]
    kinds = (operations,) if isinstance(operations, type) else tuple(operations)

    def registered(replace: Callable[..., Any]) -> Callable[..., Any]:
        name, given = replace.__name__, (element_types, folds, reads_graph, when, replace)
        for each in platforms:
            rules = _RULES.setdefault(each, {})
            if name in rules:
                raise ValueError(
                    f"the platform {each} already has a rule named {name}; choose another name"
                )
            rules[name] = Rule(name, each, kinds, *given)
        _table.cache_clear()
        return replace

    return registered


def platform_of(name: str) -> str:
    """Return the name of a platform in the tables of rules.

    Raises:
        AttributeValueError: the platform is unknown.
    """
    platform = _ALIASES.get(name, name)
    if platform not in PLATFORMS:
        advice = f"Pass one of {', '.join([*PLATFORMS, *_ALIASES])}."
        problem = f"unknown platform {name!r}"
        raise explain(AttributeValueError, "platform", problem, advice=advice)
    return platform


def rules_of(platform: str) -> dict[str, Rule]:
    """Return the rules of a platform by name, in the order in which they are tried.

    Args:
        platform: such as `cpu`.

    Returns:
        A dictionary; each rule's function documents the fault that it avoids.

    Raises:
        AttributeValueError: the platform is unknown.

    Example:
        >>> "integer_power" in mx.legalize.rules_of("cpu")
        True
    """
    platform = platform_of(platform)
    _load_rules()
    return dict(_RULES.get(platform, {}))


@cache
def _load_rules() -> None:
    """Import every module of rules."""
    for package in _PACKAGES:
        path = Path(__file__).with_name(package)
        for module in sorted(file.stem for file in path.glob("[!_]*.py")):
            import_module(f"minixla.legalize.{package}.{module}")


def active_rules(platform: str) -> Table:
    """Return the enabled rules by operation."""
    return _table(platform, state.disabled_rules)


@cache
def _table(platform: str, off: frozenset[tuple[str, str]]) -> Table:
    table: Table = {}
    for rule in rules_of(platform).values():
        if (platform, rule.name) in off:
            continue
        kinds = (
            (*ELEMENT_TYPES.values(), None) if rule.element_types is None else rule.element_types
        )
        for operation in rule.operations:
            by_type = table.setdefault(operation, {})
            for kind in kinds:
                by_type.setdefault(kind, []).append(rule)
    return table


@contextmanager
def disabled(
    platform: str, rule: str | Callable[..., Any] | Collection[Any] | None = None
) -> Iterator[None]:
    """Disable rules of a platform inside a `with` block, to compare with XLA itself.

    Programs compiled inside the block have their own cache entries.

    Args:
        platform: the platform whose rules are disabled, such as `cpu`.
        rule: the name of a rule, its function, or several of these; default: all rules.

    Raises:
        AttributeValueError: the platform or the rule is unknown.

    Example:
        >>> f = mx.jit(lambda x: ops.pow(x, np.uint8([200])))
        >>> with mx.legalize.disabled("cpu"):
        ...     wrong = f(np.uint8([3]))
        >>> f(np.uint8([3]))
        Array([161], dtype=uint8)
    """
    names = _names(platform, rule)
    default_trace()  # the engine sets the hook
    off = state.disabled_rules | {(platform_of(platform), name) for name in names}
    with held("disabled_rules", off), key_of_programs[0](off):
        yield


def _names(platform: str, rule: Any) -> list[str]:
    rules = rules_of(platform)
    if rule is None:
        return list(rules)
    several: Any = rule if isinstance(rule, (list, tuple, set, frozenset)) else (rule,)
    names = [getattr(item, "__name__", item) for item in several]
    unknown = [name for name in names if name not in rules]
    if unknown:
        problem = f"{platform} has no rule {unknown[0]!r}"
        advice = f"Pass one of {', '.join(rules) or 'none'}; or omit it for all rules."
        raise explain(AttributeValueError, "disabled", problem, advice=advice)
    return names
