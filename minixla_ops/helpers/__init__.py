"""What rules of every family are written in: splats, shapes, batch dimensions, casts, tuples."""

from typing import Any

#: A rule of a family that its members give.
GIVEN: Any = None
