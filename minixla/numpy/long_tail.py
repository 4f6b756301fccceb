"""Functions that programs seldom use: JAX's, as ours, and NumPy's for what comes from outside."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
from minixla.interop.jax_table import functions_of
from minixla.numpy import operands

_NAMES = (
    "bartlett blackman ediff1d fill_diagonal frexp frombuffer fromstring gcd geomspace hamming "
)
_NAMES += "hanning i0 kaiser kron lcm ldexp load logspace mask_indices packbits place put "
_NAMES += "put_along_axis resize sort_complex spacing trapezoid unpackbits unwrap"
_FOUND = functions_of("jax.numpy", _NAMES.split())

# Windows; factors.
bartlett, blackman, hamming = _FOUND["bartlett"], _FOUND["blackman"], _FOUND["hamming"]
hanning, i0, kaiser = _FOUND["hanning"], _FOUND["i0"], _FOUND["kaiser"]
geomspace, logspace = _FOUND["geomspace"], _FOUND["logspace"]

# Parts of numbers.
frexp, ldexp, spacing = _FOUND["frexp"], _FOUND["ldexp"], _FOUND["spacing"]
gcd, lcm = _FOUND["gcd"], _FOUND["lcm"]
packbits, unpackbits = _FOUND["packbits"], _FOUND["unpackbits"]

# Updated copies, and arrays of others' elements.
fill_diagonal, place, put = _FOUND["fill_diagonal"], _FOUND["place"], _FOUND["put"]
put_along_axis, sort_complex = _FOUND["put_along_axis"], _FOUND["sort_complex"]
kron, mask_indices, resize = _FOUND["kron"], _FOUND["mask_indices"], _FOUND["resize"]

# Integrals and differences.
trapezoid, ediff1d, unwrap = _FOUND["trapezoid"], _FOUND["ediff1d"], _FOUND["unwrap"]

# Files, buffers, texts. Printing is NumPy's own: it takes arrays, not traced values.
frombuffer, fromstring, load = _FOUND["frombuffer"], _FOUND["fromstring"], _FOUND["load"]
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
