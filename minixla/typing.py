"""Names for annotations of programs that use minixla.

Type checkers see every kind of array, a traced value too, as `Array`, which is `jax.Array` to them:
so functions with these names can be used with JAX's, and the other way round.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import jax
import numpy as np

from minixla.core.value_types import Array, ArrayLike, DTypeLike, PyTree, ShapeLike

__all__ = ["Array", "ArrayLike", "Axis", "AxisName", "DTypeLike", "KeyLike", "PyTree", "ShapeLike"]

#: An axis or several; None for all.
Axis: TypeAlias = int | Sequence[int] | None
#: The name of a mapped axis, or several.
AxisName: TypeAlias = Hashable | Sequence[Hashable]
#: A random key, or an array of keys, or the numbers of one.
KeyLike: TypeAlias = jax.Array | np.ndarray


def __dir__() -> list[str]:
    return __all__
