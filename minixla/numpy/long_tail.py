"""Rarely used functions of JAX, and NumPy's functions for files and printing."""

from typing import Any

import numpy as np
from jax.numpy import (
    bartlett,
    bitwise_count,
    blackman,
    ediff1d,
    fill_diagonal,
    frexp,
    frombuffer,
    fromstring,
    geomspace,
    hamming,
    hanning,
    i0,
    kaiser,
    kron,
    ldexp,
    load,
    logspace,
    mask_indices,
    packbits,
    place,
    put,
    put_along_axis,
    resize,
    sort_complex,
    spacing,
    trapezoid,
    unpackbits,
    unwrap,
)

import minixla.numpy as mnp
from minixla.numpy import operands

__all__ = ["ComplexWarning", "array_repr", "array_str", "bartlett", "bitwise_count", "blackman"]
__all__ += ["ediff1d", "fill_diagonal", "frexp", "from_dlpack", "frombuffer", "fromfile"]
__all__ += ["fromiter", "fromstring", "geomspace", "get_printoptions", "hamming", "hanning", "i0"]
__all__ += ["iterable", "kaiser", "kron", "ldexp", "load", "logspace", "mask_indices", "packbits"]
__all__ += ["place", "printoptions", "put", "put_along_axis", "resize", "save", "savez"]
__all__ += ["set_printoptions", "sort_complex", "spacing", "trapezoid", "unpackbits", "unwrap"]

# NumPy's functions for files and printing accept arrays, not traced values.
ComplexWarning, iterable = np.exceptions.ComplexWarning, np.iterable
array_repr, array_str = np.array_repr, np.array_str
get_printoptions, set_printoptions = np.get_printoptions, np.set_printoptions
printoptions, save, savez = np.printoptions, np.save, np.savez


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """An array made of the contents of a file. Arguments are those of numpy.fromfile."""
    return mnp.asarray(np.fromfile(*args, **kwargs))


def fromiter(*args: Any, **kwargs: Any) -> Any:
    """An array made of the numbers of an iterable. Arguments are those of numpy.fromiter."""
    return mnp.asarray(np.fromiter(*args, **kwargs))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array of another library's, taken over by DLPack, without a copy where that can be.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`.
        device: where the result is to be; default: where it is.
        copy: True for a copy in any case, False for none; None where one is needed.
    """
    from jax import numpy as jnp  # no sooner than it is called

    if not hasattr(x, "__dlpack__"):
        advice = "Give an array, or convert with mx.numpy.asarray."
        raise operands.shape_error("from_dlpack", "it has no __dlpack__", advice, repr(x))
    return jnp.from_dlpack(x, device=device, copy=copy)
