"""Registered operations by name, in one namespace for each registering package, and by role.

Transformations need a few operations: derivatives add cotangents, batching falls back to a loop,
and nested programs are called. The core does not know these operations; the imported operation set
fills the roles. The results of users' rules are checked at run time, and errors name the rule.
"""

import difflib
import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from minixla.core import errors, hooks
from minixla.core.errors import explain
from minixla.core.shapes import AnyShape
from minixla.core.tracer import shape_of

Class = TypeVar("Class", bound=type)

_XLA = "xla"
#: The classes of XLA's operations by XLA's name (`DotGeneral`). Any: attributes differ by class.
REGISTRY: dict[str, type[Any]] = {}
#: Operations of other namespaces by full name, `my.DotGeneral`.
OTHERS: dict[str, type[Any]] = {}
#: The packages whose operations are in XLA's namespace.
_OURS = ("minixla", "minixla_ops")
_ROLES: dict[str, Callable[..., Any]] = {}


def full_name(name: str, namespace: str, module: str) -> str:
    """Return `my.Name`, or `Name` in XLA's namespace; default: the module's top-level package."""
    package = module.partition(".")[0]
    space = namespace or (_XLA if package in _OURS else package)
    return name if space == _XLA else f"{space}.{name}"


def register(cls: Class) -> Class:
    """Register an operation in its namespace. A class decorator.

    Args:
        cls: the class.

    Returns:
        The same class.

    Raises:
        ValueError: the name is taken in the namespace, or the class has no docstring.

    Example:
        >>> from minixla.core import builder, register
        >>> from minixla_ops.elementwise.transcendental import FloatUnary
        >>> @register
        ... class ExampleHalf(FloatUnary):
        ...     numpy = lambda x: x / 2
        ...     lowered = lambda self, x: x * 0.5
        ...     derivative = lambda self, x, y: y * 0 + 0.5
        >>> builder(ExampleHalf)(np.float32(3))
        Array(1.5, dtype=float32)
    """
    if registered(cls.name):
        raise ValueError(f"an operation named {cls.name} is already registered")
    # `python -OO` removes all docstrings.
    texts = [base.__doc__ for base in cls.__mro__[:-1] if base.__doc__ is not None]
    if not any(texts[:1]) and sys.flags.optimize < 2:
        raise ValueError(f"operation {cls.name} has no docstring")
    if "." in cls.name:
        _check_rules(cls)
    (OTHERS if "." in cls.name else REGISTRY)[cls.name] = cls
    return cls


def registered(name: str) -> type[Any] | None:
    """Return the operation with a full name, or None."""
    return REGISTRY.get(name.removeprefix(f"{_XLA}.")) or OTHERS.get(name)


def operation_named(name: str, module: str | None = None) -> type[Any]:
    """Return the class of a registered operation.

    Args:
        name: the name with its namespace, `my.Name`; or without: XLA's operation with that name,
            else the only one in all other namespaces.
        module: the module that registers it, if it is not loaded yet.

    Returns:
        The class.

    Raises:
        KeyError: the name is unknown, or several other namespaces have it.

    Example:
        >>> mx.core.operation_named("Neg").builder_name
        'neg'
    """
    operation = registered(name)
    if operation is None:
        hooks.operations() if module is None else importlib.import_module(module)
        operation = registered(name)
    if operation is not None:
        return operation
    spaces = {full: full.rpartition(".")[0] for full in OTHERS}
    several = [full for full, space in spaces.items() if full == f"{space}.{name}"]
    if len(several) == 1:
        return OTHERS[several[0]]
    if several:
        listed = ", ".join(several)
        raise KeyError(f"several operations are named {name}; pass one of these names: {listed}")
    similar = ", ".join(difflib.get_close_matches(name, [*REGISTRY, *OTHERS])) or "none"
    raise KeyError(
        f"no operation is named {name}; similar names: {similar}; "
        f"namespaces: {', '.join(dict.fromkeys([_XLA, *spaces.values()]))}"
    )


def fill_role(name: str, function: Callable[..., object]) -> None:
    """Fill the role `name` with `function`."""
    # Roles: `add(x, y)` of cotangents, `zeros(shape)`, `constant` and `tuple` (operation classes
    # with a Literal and without attributes), `call(graph, *operands)`, `resize(value, like)`
    # (`with_sizes_of`), `move_batch(value, from, to, size)`, `batch_by_loop(operation, operands,
    # dimensions)`.
    _ROLES[name] = function


def role(name: str) -> Callable[..., Any]:
    """Return the function in the role `name`."""
    operation = _ROLES.get(name)
    if operation is None:
        hooks.operations()
        operation = _ROLES[name]
    return operation


def _check_rules(kind: type) -> None:
    """Wrap rules that a class, or a base class outside this library, defines."""
    for name in ("shape", "jvp", "vjp", "transpose", "batch"):
        home = next(base for base in kind.__mro__ if name in base.__dict__)
        is_checked = home in OTHERS.values()
        if not is_checked and home.__module__.partition(".")[0] not in _OURS:
            setattr(kind, name, _checked(name, home.__dict__[name]))


def _checked(name: str, rule: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(rule)
    def checked(self: Any, *arguments: object) -> object:  # noqa: ANN401  # Operation imports this
        result = rule(self, *arguments)
        missed = _missed(name, result, arguments)
        if missed:
            problem = f"its {name} rule must return {missed}"
            details = [f"rule of class {type(self).__name__}", f"returned {_shown(result)}"]
            is_derivative = name in ("jvp", "vjp", "transpose")
            error = errors.DerivativeError if is_derivative else errors.TransformError
            raise explain(error, self.builder_name, problem, details, f"Return {missed}.")
        return result

    return checked


def _missed(name: str, result: object, arguments: tuple[object, ...]) -> str:
    """Return the expected result of a rule for its arguments; empty if the result is valid."""
    if name == "shape":
        results = result if isinstance(result, tuple) else (result,)
        fits = all(isinstance(one, AnyShape) for one in results)
        return "" if fits else "a Shape, or a tuple of a Shape for each result"
    if name == "batch":
        fits = isinstance(result, tuple) and len(result) == 2
        wanted = "a pair: the result (or a tuple) and its batch dimension (or one for each)"
        return "" if fits else wanted
    if name == "jvp":
        fits = result is None or _fit(result, arguments[2])
        return (
            "" if fits else f"tangents like its results, {_shown(arguments[2])}, or None for zero"
        )
    fits = _fit(result, arguments[1])
    return "" if fits else f"a cotangent or None for each operand, {_shown(arguments[1])}"


def _shown(result: object) -> str:
    if isinstance(result, (list, tuple)):
        return f"({', '.join(map(_shown, result))})"
    try:
        return str(shape_of(result))
    except (errors.MinixlaError, TypeError, ValueError):
        return repr(result)


def _fit(result: object, values: object) -> bool:
    """Return whether tangents or cotangents are None or have the shapes of the values."""
    if not isinstance(values, (list, tuple)):
        result, values = [result], [values]
    if not isinstance(result, Sequence) or len(result) != len(values):
        return False
    try:
        pairs = zip(result, values, strict=True)
        return all(part is None or shape_of(part) is shape_of(value) for part, value in pairs)
    except (errors.ShapeError, TypeError):
        return False
