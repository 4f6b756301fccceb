"""Functions that programs seldom use: JAX's, as ours, and NumPy's for what comes from outside."""

from functools import partial
from typing import Any

import numpy as np

import minixla.numpy as mnp
from minixla.interop.jax_table import JaxFunction
from minixla.numpy import operands

_jaxs = partial(JaxFunction, "jax.numpy")

# Windows; factors.
bartlett, blackman, hamming = map(_jaxs, ("bartlett", "blackman", "hamming"))
hanning, i0, kaiser = map(_jaxs, ("hanning", "i0", "kaiser"))
geomspace, logspace = map(_jaxs, ("geomspace", "logspace"))

# Parts of numbers.
bitwise_count = _jaxs("bitwise_count")
frexp, ldexp, spacing = map(_jaxs, ("frexp", "ldexp", "spacing"))
packbits, unpackbits = map(_jaxs, ("packbits", "unpackbits"))

# Updated copies, and arrays of others' elements.
fill_diagonal, place, put = map(_jaxs, ("fill_diagonal", "place", "put"))
put_along_axis, sort_complex = map(_jaxs, ("put_along_axis", "sort_complex"))
kron, mask_indices, resize = map(_jaxs, ("kron", "mask_indices", "resize"))

# Integrals and differences.
trapezoid, ediff1d, unwrap = map(_jaxs, ("trapezoid", "ediff1d", "unwrap"))

# Files, buffers, texts. Printing is NumPy's own: it takes arrays, not traced values.
frombuffer, fromstring, load = map(_jaxs, ("frombuffer", "fromstring", "load"))
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
