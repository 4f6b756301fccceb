"""What functions that fold along axes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import minixla_ops as ops

Axis = int | Sequence[int] | None


def spread(folded: Any, axes: tuple[int, ...], like: Any) -> Any:
    """What was folded over `axes`, repeated along them to the shape of `like`."""
    kept = [axis for axis in range(like.ndim) if axis not in axes]
    return ops.broadcast_in_dim(folded, like.shape, kept)
