# Made by `python -m minixla.tools.stubs`.

import builtins
from collections.abc import Sequence
from jax.random import ball as ball
from jax.random import binomial as binomial
from jax.random import chisquare as chisquare
from jax.random import double_sided_maxwell as double_sided_maxwell
from jax.random import f as f
from jax.random import generalized_normal as generalized_normal
from jax.random import geometric as geometric
from jax.random import maxwell as maxwell
from jax.random import multinomial as multinomial
from jax.random import multivariate_normal as multivariate_normal
from jax.random import orthogonal as orthogonal
from jax.random import pareto as pareto
from jax.random import poisson as poisson
from jax.random import random_gamma_p as random_gamma_p
from jax.random import rayleigh as rayleigh
from jax.random import t as t
from jax.random import triangular as triangular
from jax.random import wald as wald
from jax.random import weibull_min as weibull_min
from minixla.typing import Array
from minixla.typing import ArrayLike
from minixla.typing import DTypeLike
from minixla.typing import KeyLike
from minixla.typing import ShapeLike
from typing import Any

__all__: list[str]

def uniform(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., minval: ArrayLike = ..., maxval: ArrayLike = ..., *, out_sharding: Any = ...) -> Array:
    """Floats between two numbers, all equally likely."""

def normal(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the standard normal distribution; complex ones have independent parts, and variance 1."""

def exponential(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the exponential distribution of mean 1."""

def laplace(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the Laplace distribution of mean 0 and scale 1."""

def logistic(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the logistic distribution."""

def cauchy(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the Cauchy distribution."""

def gumbel(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., mode: str | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the Gumbel distribution."""

def truncated_normal(key: KeyLike, lower: ArrayLike, upper: ArrayLike, shape: ShapeLike | None = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the standard normal distribution between two numbers."""

def lognormal(key: KeyLike, sigma: ArrayLike = ..., shape: ShapeLike | None = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats whose logarithms are normal, of mean 0."""

def bits(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Random bits, as unsigned integers."""

def randint(key: KeyLike, shape: ShapeLike, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Integers between two numbers, all equally likely."""

def bernoulli(key: KeyLike, p: ArrayLike = ..., shape: ShapeLike | None = ..., mode: str = ..., *, out_sharding: Any = ...) -> Array:
    """Booleans that are true with a probability."""

def rademacher(key: KeyLike, shape: ShapeLike = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """-1 and 1, equally likely."""

def categorical(key: KeyLike, logits: ArrayLike, axis: int = ..., shape: ShapeLike | None = ..., replace: bool = ..., mode: str | None = ..., *, out_sharding: Any = ...) -> Array:
    """Numbers of categories, of unnormalised logarithms of their probabilities."""

def permutation(key: KeyLike, x: ArrayLike, axis: int = ..., independent: bool = ..., *, out_sharding: Any = ...) -> Array:
    """An array in random order, or the integers below a number."""

def choice(key: KeyLike, a: ArrayLike, shape: ShapeLike = ..., replace: bool = ..., p: ArrayLike | None = ..., axis: int = ..., mode: str | None = ...) -> Array:
    """Elements of an array, or integers below a number."""

def gamma(key: KeyLike, a: ArrayLike, shape: ShapeLike | None = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the gamma distribution of scale 1."""

def loggamma(key: KeyLike, a: ArrayLike, shape: ShapeLike | None = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Logarithms of floats of the gamma distribution, exact where those are 0."""

def beta(key: KeyLike, a: ArrayLike, b: ArrayLike, shape: ShapeLike | None = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Floats of the beta distribution."""

def dirichlet(key: KeyLike, alpha: ArrayLike, shape: ShapeLike | None = ..., dtype: DTypeLike | None = ..., *, out_sharding: Any = ...) -> Array:
    """Vectors of the Dirichlet distribution, whose sums are 1."""

def key_dtype(impl_spec: Any = ...) -> Any:
    """The type of the keys of an implementation."""

def key(seed: ArrayLike, *, impl: Any = ..., dtype: DTypeLike | None = ...) -> Array:
    """A typed random key: what every function of this module draws from."""

def PRNGKey(seed: ArrayLike, *, impl: Any = ...) -> Array:
    """A raw random key: its numbers, an array of u32, which does not say whose key it is."""

def split(key: KeyLike, num: int | Sequence[int] = ...) -> Array:
    """New keys made of a key: an array of them, as typed or raw as it is."""

def fold_in(key: KeyLike, data: ArrayLike) -> Array:
    """A new key made of a key and a number, as typed or raw as the key is."""

def key_data(keys: KeyLike) -> Array:
    """The numbers of keys, u32, those of each along the last dimension."""

def key_impl(keys: KeyLike) -> str:
    """The name of the implementation that keys are of, "threefry2x32", "rbg" or "unsafe_rbg"."""

def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = ..., dtype: DTypeLike | None = ...) -> Array:
    """Typed keys of these numbers, the other way round from `key_data`."""

def clone(key: KeyLike) -> Array:
    """The same key, for those who draw the same numbers on purpose."""

