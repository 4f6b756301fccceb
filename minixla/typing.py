"""Names for annotations of programs that use minixla.

Type checkers see every kind of array, a traced value too, as `Array`, which is `jax.Array` to them:
so functions with these names can be used with JAX's, and the other way round.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from minixla.core.tracing import Tracer

__all__ = ["Array", "ArrayLike", "Axis", "AxisName", "DTypeLike", "KeyLike", "PyTree", "ShapeLike"]

if TYPE_CHECKING:
    #: An array: traced, on a device, or of NumPy (in kernels and in `mx.reference`).
    Array: TypeAlias = jax.Array
else:
    Array = jax.Array | np.ndarray | Tracer
# `ArrayLike` is what functions take for one, also numbers of Python and NumPy, but no lists;
# `DTypeLike` what they take for an element type.
#: An axis or several; None for all.
Axis: TypeAlias = int | Sequence[int] | None
#: The name of a mapped axis, or several.
AxisName: TypeAlias = Hashable | Sequence[Hashable]
#: Dimension sizes, or the only one.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
#: A random key, or an array of keys, or the numbers of one.
KeyLike: TypeAlias = jax.Array | np.ndarray
#: Containers of arrays, one in the other: what `mx.tree` takes apart.
PyTree: TypeAlias = Any


def __dir__() -> list[str]:
    return __all__
