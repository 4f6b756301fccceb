"""Pictures, resized and moved: the functions of jax.image."""

from jax.image import ResizeMethod  # noqa: F401 - an enumeration is taken as it is

from minixla.interop.jax_modules import all_of_jax

__all__ = all_of_jax(globals())  # pyright: ignore[reportUnsupportedDunderAll]  # computed
