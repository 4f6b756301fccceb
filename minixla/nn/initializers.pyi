# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Sequence
from jax.nn.initializers import Initializer as Initializer
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from minixla.typing import KeyLike
from typing import Any
from typing import Literal
from typing import Union

__all__: list[str]

def constant(value: ArrayLike, dtype: DTypeLike | None = ...) -> Initializer:
    """Builds an initializer that returns arrays full of a constant ``value``."""

def delta_orthogonal(scale: ArrayLike = ..., column_axis: int = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds an initializer for delta orthogonal kernels."""

def glorot_normal(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a Glorot normal initializer (aka Xavier normal initializer)."""

def glorot_uniform(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a Glorot uniform initializer (aka Xavier uniform initializer)."""

def he_normal(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a He normal initializer (aka Kaiming normal initializer)."""

def he_uniform(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a He uniform initializer (aka Kaiming uniform initializer)."""

def kaiming_normal(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a He normal initializer (aka Kaiming normal initializer)."""

def kaiming_uniform(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a He uniform initializer (aka Kaiming uniform initializer)."""

def lecun_normal(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a Lecun normal initializer."""

def lecun_uniform(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a Lecun uniform initializer."""

def normal(stddev: Any = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds an initializer that returns real normally-distributed random arrays."""

def ones(key: KeyLike, shape: Sequence[Union[int, Any]], dtype: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """An initializer that returns a constant array full of ones."""

def orthogonal(scale: ArrayLike = ..., column_axis: int = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds an initializer that returns uniformly distributed orthogonal matrices."""

def truncated_normal(stddev: Any = ..., dtype: DTypeLike | None = ..., lower: ArrayLike = ..., upper: ArrayLike = ...) -> Initializer:
    """Builds an initializer that returns truncated-normal random arrays."""

def uniform(scale: ArrayLike = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds an initializer that returns real uniformly-distributed random arrays."""

def variance_scaling(scale: Any, mode: Union[Literal['fan_in'], Literal['fan_out'], Literal['fan_avg'], Literal['fan_geo_avg']], distribution: Union[Literal['builtins.truncated_normal'], Literal['builtins.normal'], Literal['builtins.uniform']], in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Initializer that adapts its scale to the shape of the weights tensor."""

def xavier_normal(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a Glorot normal initializer (aka Xavier normal initializer)."""

def xavier_uniform(in_axis: int | Sequence[int] = ..., out_axis: int | Sequence[int] = ..., batch_axis: int | Sequence[int] = ..., dtype: DTypeLike | None = ...) -> Initializer:
    """Builds a Glorot uniform initializer (aka Xavier uniform initializer)."""

def zeros(key: KeyLike, shape: Sequence[Union[int, Any]], dtype: DTypeLike | None = ..., out_sharding: Any = ...) -> Array:
    """An initializer that returns a constant array full of zeros."""

