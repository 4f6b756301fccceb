"""Types of values for annotations; `minixla.typing` exports all except `Results`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import jax
import numpy as np
from jax.typing import ArrayLike as ArrayLike
from jax.typing import DTypeLike as DTypeLike

if TYPE_CHECKING:
    #: A tracer, a JAX array, or a NumPy array (in kernels and in `mx.reference`).
    Array: TypeAlias = jax.Array
else:
    Array = jax.Array | np.ndarray | jax.core.Tracer
# `ArrayLike` is the type of array arguments: also Python and NumPy scalars, but no lists;
# `DTypeLike` is the type of arguments that name an element type.
#: Dimension sizes; an integer stands for one dimension.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
#: Nested containers of arrays.
PyTree: TypeAlias = Any
#: The result of an operation, or a tuple if the operation has several results.
Results: TypeAlias = Array | tuple[Array, ...]
