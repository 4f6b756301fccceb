"""The error classes, and how their messages are laid out."""

import re
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import jax.errors
import numpy as np

from minixla.core.source import Source, find_source, printable, public_name
from minixla.core.state import state
from minixla.core.tracebacks import mark_frames

# What users see of them.
__all__ = ["ArgumentTypeError", "AssignmentError", "AttributeValueError", "ConcretizationError"]
__all__ += ["AxisError", "DeadlockError", "DerivativeError", "GradientCheckError", "ImportError_"]
__all__ += ["IndexingError", "InfinityError", "IntegerRangeError", "LeakedTracerError"]
__all__ += ["MinixlaError", "NaNError", "NestingError", "ShapeError", "ShardingError", "SizeError"]
__all__ += ["TransformError", "UnsupportedError"]


class MinixlaError(Exception):
    """Base class of every error that minixla raises on purpose."""

    #: What an operation refused, where it did not know its operands yet.
    refusal: Any = None


class ShapeError(MinixlaError, TypeError, ValueError):
    """Operand shapes, element types or counts break an operation's rule.

    JAX raises TypeError where they do not fit; NumPy's programs expect ValueError.
    """


class SizeError(MinixlaError, ValueError, MemoryError):
    """An array has more bytes than 64 bits can count, or than there is memory for."""

    #: What is wrong, one clause that names no operation.
    problem = ""


class AttributeValueError(MinixlaError, ValueError):
    """An attribute of an operation has the wrong type or a value out of its range."""


class ArgumentTypeError(AttributeValueError, TypeError):
    """An argument is no number, no flag or no name where it must be one."""


class UnsupportedError(AttributeValueError, NotImplementedError):
    """Error raised when a function, an argument value or a JAX primitive is not supported."""


class ShardingError(MinixlaError, ValueError):
    """A mesh, a sharding or a sharded program breaks a rule."""


class IntegerRangeError(AttributeValueError, OverflowError):
    """A Python int is too large for the element type that it would have."""


class ConcretizationError(MinixlaError, jax.errors.ConcretizationTypeError):
    """The value of a staged tracer was asked for where only its shape is known.

    It is also JAX's error, which JAX's functions catch where they can do without the value.
    """

    def __init__(self, message: str) -> None:
        TypeError.__init__(self, message)


class AssignmentError(MinixlaError, TypeError):
    """An element of an array was assigned to, which only NumPy's arrays let one do."""


class IndexingError(ShapeError, IndexError):
    """An index does not fit the array that it is for: IndexError in NumPy, in JAX TypeError too."""


class AxisError(AttributeValueError, np.exceptions.AxisError, IndexingError):
    """An axis is out of range: NumPy's error, which is a ValueError and an IndexError."""


class LeakedTracerError(MinixlaError, jax.errors.UnexpectedTracerError, ValueError):
    """A tracer was used after the function whose trace made it had returned."""

    def __init__(self, message: str) -> None:
        TypeError.__init__(self, message)


class DerivativeError(MinixlaError, TypeError):
    """A derivative was asked for where none is defined."""


class TransformError(MinixlaError, TypeError):
    """A transformation was given arguments that do not fit the function or each other."""


class NestingError(MinixlaError, RecursionError):
    """Functions are traced within each other without end, or deeper than the stack has room."""


class DeadlockError(MinixlaError, RuntimeError):
    """Simulated processes wait for each other for ever."""


class ImportError_(MinixlaError, ValueError):
    """A program from outside cannot be read; named so as not to hide ImportError."""


class GradientCheckError(MinixlaError, AssertionError):
    """A derivative differs from finite differences."""


class NaNError(MinixlaError, FloatingPointError):
    """A NaN was made where `debug_nans` looks for them."""


class InfinityError(MinixlaError, FloatingPointError):
    """An infinity was made where `debug_infs` looks for them."""


ErrorType = TypeVar("ErrorType", bound=MinixlaError)


def explain(
    kind: type[ErrorType],
    subject: str,
    problem: str,
    details: Iterable[str] = (),
    advice: str = "",
    source: Source | None = None,
) -> ErrorType:
    """An error of class `kind` whose message has the house's layout."""
    # `subject` is the operation or transformation, `problem` a clause without a full stop; `given`
    # are lines that show what was given, `advice` is the rule and what to do. The user's line is by
    # default that of an instruction which is being transformed, else the caller's innermost.
    mark_frames(sys._getframe(1))
    source = source or state.source
    if source is None:
        source, name = find_source(2), public_name()
        if name is not None and name not in re.split(r"\W+", subject):
            subject = f"{name}: {subject}"
    lines = [f"{subject}: {problem}.", *(f"  {line}" for line in details)]
    if source is not None:
        lines.append(f"  called at {source}")
    if advice:
        lines.append(f"  {advice}")
    error = kind(printable("\n".join(lines)))
    name = kind.__name__.lstrip("_")
    error.add_note(f"Causes and fixes: python -m minixla explain {name}")
    return error


def check_arguments(subject: str, **rules: tuple[object, bool, str]) -> None:
    """Refuses an argument of a function that is not what it must be.

    Args:
        subject: the function.
        rules: by the argument's name its value, whether it can take that, and what it is.

    Raises:
        AttributeValueError: for the first that cannot.
    """
    for name, (value, is_right, rule) in rules.items():
        if not is_right:
            raise wrong_argument(subject, name, value, rule)


def wrong_argument(
    subject: str,
    name: str,
    value: object,
    rule: str,
    kind: type[AttributeValueError] = AttributeValueError,
) -> AttributeValueError:
    """The error for an argument that is not what it must be, which `rule` says."""
    problem, shown_value = f"{name} has a value that it cannot take", f"{name} = {value!r}"
    return explain(kind, subject, problem, [shown_value[:200]], f"{name} is {rule}.")


def too_large(subject: str, problem: str, details: Iterable[str] = ()) -> SizeError:
    """The error for an array that cannot be; see `explain` and SizeError."""
    advice = "An array's bytes must fit into memory, and into 64 bits: compute it in parts."
    error = explain(SizeError, subject, problem, details, advice)
    error.problem = problem
    return error
