"""Cosine transforms: the functions of jax.scipy.fft."""

from typing import TYPE_CHECKING, Any

from minixla.interop.jax_modules import all_of_jax

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # type checkers do not see JAX's names


__all__ = all_of_jax(globals())  # pyright: ignore[reportUnsupportedDunderAll]  # computed
