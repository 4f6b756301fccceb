"""Helpers for the rules of all families: splats, shapes, batch dimensions, casts, tuples."""

from typing import Any

#: A rule of a base class that its subclasses define.
GIVEN: Any = None
