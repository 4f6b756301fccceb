"""The error classes, and the layout of their messages."""

import re
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import jax.errors
import numpy as np

from minixla.core.source import Source, find_source, printable, public_name
from minixla.core.state import state
from minixla.core.tracebacks import mark_frames

# Public names.
__all__ = ["ArgumentTypeError", "AssignmentError", "AttributeValueError", "ConcretizationError"]
__all__ += ["AxisError", "DeadlockError", "DerivativeError", "GradientCheckError", "ImportError_"]
__all__ += ["IndexingError", "InfinityError", "IntegerRangeError", "LeakedTracerError"]
__all__ += ["MinixlaError", "NaNError", "NestingError", "ShapeError", "ShardingError", "SizeError"]
__all__ += ["TransformError", "UnsupportedError"]


class MinixlaError(Exception):
    """Base class of every error that minixla raises on purpose."""

    #: The arguments of an operation's `refuse` that did not know its operands.
    refusal: Any = None


class ShapeError(MinixlaError, TypeError, ValueError):
    """Error raised when operand shapes, element types or counts break an operation's rule.

    It is a TypeError, as in JAX, and a ValueError, as NumPy's programs expect.
    """


class SizeError(MinixlaError, ValueError, MemoryError):
    """Error raised when an array has more bytes than memory, or than 64 bits can count."""

    #: The problem, as a clause without the operation's name.
    problem = ""


class AttributeValueError(MinixlaError, ValueError):
    """Error raised when an attribute has the wrong type or a value out of range."""


class ArgumentTypeError(AttributeValueError, TypeError):
    """Error raised when an argument has an invalid type: a number, a flag or a name is required."""


class UnsupportedError(AttributeValueError, NotImplementedError):
    """Error raised when a function, an argument value or a JAX primitive is not supported."""


class ShardingError(MinixlaError, ValueError):
    """Error raised when a mesh, a sharding or a sharded program breaks a rule."""


class IntegerRangeError(AttributeValueError, OverflowError):
    """Error raised when a Python int is too large for its element type."""


class ConcretizationError(MinixlaError, jax.errors.ConcretizationTypeError):
    """Error raised when the value of a tracer is required, but only its shape is known.

    It is also JAX's error, which JAX's functions catch if they can proceed without the value.
    """

    def __init__(self, message: str) -> None:
        TypeError.__init__(self, message)


class AssignmentError(MinixlaError, TypeError):
    """Error raised when an element of an array is assigned to, which only NumPy supports."""


class IndexingError(ShapeError, IndexError):
    """Error raised when an index is invalid for its array: NumPy's IndexError, JAX's TypeError."""


class AxisError(AttributeValueError, np.exceptions.AxisError, IndexingError):
    """Error raised when an axis is out of range: NumPy's error, a ValueError and IndexError."""


class LeakedTracerError(MinixlaError, jax.errors.UnexpectedTracerError, ValueError):
    """Error raised when a tracer is used after its traced function has returned."""

    def __init__(self, message: str) -> None:
        TypeError.__init__(self, message)


class DerivativeError(MinixlaError, TypeError):
    """Error raised when a derivative is not defined."""


class TransformError(MinixlaError, TypeError):
    """Error raised when a transformation's arguments do not match the function or each other."""


class NestingError(MinixlaError, RecursionError):
    """Error raised when traced functions nest infinitely, or deeper than the stack allows."""


class DeadlockError(MinixlaError, RuntimeError):
    """Error raised when simulated processes wait for each other forever."""


class ImportError_(MinixlaError, ValueError):
    """Error raised when an external program cannot be read; does not shadow ImportError."""


class GradientCheckError(MinixlaError, AssertionError):
    """Error raised when a derivative differs from finite differences."""


class NaNError(MinixlaError, FloatingPointError):
    """Error raised when `debug_nans` detects a NaN."""


class InfinityError(MinixlaError, FloatingPointError):
    """Error raised when `debug_infs` detects an infinity."""


ErrorType = TypeVar("ErrorType", bound=MinixlaError)


def explain(
    kind: type[ErrorType],
    subject: str,
    problem: str,
    details: Iterable[str] = (),
    advice: str = "",
    source: Source | None = None,
) -> ErrorType:
    """Build an error of class `kind` with the usual layout of messages."""
    # `subject` is the operation or transformation, and `problem` a clause without a full stop.
    # `details` are lines with the values, and `advice` is the rule and the fix. The source line is
    # by default that of an instruction being transformed, else the caller's innermost line.
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
    """Raise an error for the first invalid argument of a function.

    Args:
        subject: the function.
        rules: for each argument name, the value, whether it is valid, and the rule.

    Raises:
        AttributeValueError: for the first invalid argument.
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
    """Build the error for an invalid argument; `rule` states valid values."""
    problem, shown_value = f"{name} has an invalid value", f"{name} = {value!r}"
    return explain(kind, subject, problem, [shown_value[:200]], f"{name} is {rule}.")


def too_large(subject: str, problem: str, details: Iterable[str] = ()) -> SizeError:
    """Build the error for an array that is too large; see `explain` and SizeError."""
    advice = "The size of an array in bytes must fit in memory and in 64 bits: compute it in parts."
    error = explain(SizeError, subject, problem, details, advice)
    error.problem = problem
    return error
