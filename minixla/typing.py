"""Names for annotations of programs that use minixla.

To type checkers, every array and traced value is an `Array`, which is `jax.Array` to them. So
functions annotated with these names work with JAX's, and vice versa.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import jax
import numpy as np

from minixla.core.value_types import Array, ArrayLike, DTypeLike, PyTree, ShapeLike

__all__ = ["Array", "ArrayLike", "Axis", "AxisName", "DTypeLike", "KeyLike", "PyTree", "ShapeLike"]

#: One or several axes; None for all.
Axis: TypeAlias = int | Sequence[int] | None
#: The name of one or several mapped axes.
AxisName: TypeAlias = Hashable | Sequence[Hashable]
#: A random key, an array of keys, or the numbers of a key.
KeyLike: TypeAlias = jax.Array | np.ndarray


def __dir__() -> list[str]:
    return __all__
