"""Rarely used functions of JAX, and NumPy's functions for files and printing."""

from typing import Any

import numpy as np
from jax import numpy as jnp

import minixla.numpy as mnp
from minixla.numpy import operands

#: JAX's functions, exported unchanged.
_OF_JAX = """
append apply_along_axis array_equiv bartlett bincount bitwise_count blackman block c_ choose
corrcoef cov delete diag_indices diag_indices_from diagflat ediff1d einsum_path fill_diagonal
frexp frombuffer fromfunction fromstring geomspace hamming hanning histogram_bin_edges i0
indices kaiser kron ldexp load logspace mask_indices mgrid ogrid packbits place
poly polyadd polyder polydiv polyfit polyint polymul polysub polyval put put_along_axis r_
ravel_multi_index resize rollaxis roots rot90 sort_complex spacing trapezoid trim_zeros
unpackbits unravel_index unwrap vander
"""
globals().update({name: getattr(jnp, name) for name in _OF_JAX.split()})

__all__ = [*_OF_JAX.split(), "ComplexWarning", "array_repr", "array_str", "from_dlpack", "fromfile"]
__all__ += ["fromiter", "get_printoptions", "index_exp", "iterable", "printoptions", "s_", "save"]
__all__ += ["savez", "set_printoptions"]

# NumPy's functions for files and printing accept arrays, not traced values.
ComplexWarning, iterable = np.exceptions.ComplexWarning, np.iterable
s_, index_exp = np.s_, np.index_exp
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
    if not hasattr(x, "__dlpack__"):
        advice = "Give an array, or convert with mx.numpy.asarray."
        raise operands.shape_error("from_dlpack", "it has no __dlpack__", advice, repr(x))
    return jnp.from_dlpack(x, device=device, copy=copy)
