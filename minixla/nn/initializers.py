"""Initial values of parameters: JAX's own, so that numbers are the same (JAX: nn.initializers)."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from jax.nn import initializers
from jax.nn.initializers import Initializer

from minixla.core.source import warnings_at_users_line
from minixla.core.state import ThreadState, state
from minixla.core.tracing import Tracer
from minixla.engine.random_keys import with_keys_of_jax
from minixla.interop.from_jax import from_jax


def _ours(initializer: Initializer) -> Any:
    """An initializer of JAX's as ours: JAX runs it outside all transformations."""
    staged = from_jax(initializer)

    @wraps(initializer)
    def drawn(key: Any, *args: Any, **kwargs: Any) -> Any:
        with warnings_at_users_line():
            if state.trace is ThreadState.trace and not isinstance(key, Tracer):
                return initializer(with_keys_of_jax(key), *args, **kwargs)
            return staged(key, *args, **kwargs)

    return drawn


def _building(name: str) -> Callable[..., Initializer]:
    """A function of JAX's that makes initializers, as one that makes ours."""
    function = getattr(initializers, name)

    def made(*args: Any, **kwargs: Any) -> Initializer:
        return _ours(function(*args, **kwargs))

    kept = lru_cache(maxsize=256, typed=True)(made)  # with the programs that they have

    @wraps(function)
    def build(*args: Any, **kwargs: Any) -> Initializer:
        try:
            return kept(*args, **kwargs)
        except TypeError:  # arrays and lists are not hashable; else it is raised again
            return made(*args, **kwargs)

    build.__module__ = __name__
    return build


zeros, ones = _ours(initializers.zeros), _ours(initializers.ones)
zeros.__module__ = ones.__module__ = __name__
constant, uniform, normal = map(_building, ("constant", "uniform", "normal"))
truncated_normal, orthogonal = map(_building, ("truncated_normal", "orthogonal"))
delta_orthogonal, variance_scaling = map(_building, ("delta_orthogonal", "variance_scaling"))
glorot_normal, glorot_uniform = map(_building, ("glorot_normal", "glorot_uniform"))
lecun_normal, lecun_uniform = map(_building, ("lecun_normal", "lecun_uniform"))
he_normal, he_uniform = map(_building, ("he_normal", "he_uniform"))
xavier_normal, xavier_uniform = glorot_normal, glorot_uniform
kaiming_normal, kaiming_uniform = he_normal, he_uniform

__all__ = ["Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform"]
__all__ += ["he_normal", "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal"]
__all__ += ["lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform"]
__all__ += ["variance_scaling", "xavier_normal", "xavier_uniform", "zeros"]


def __dir__() -> list[str]:
    return __all__
