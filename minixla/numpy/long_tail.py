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
from minixla.typing import Array

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


def fromfile(*args: Any, **kwargs: Any) -> Array:
    r"""Read an array from a file; arguments are those of `numpy.fromfile`.

    Args:
        *args: as for `numpy.fromfile`.
        **kwargs: as for `numpy.fromfile`.

    Returns:
        A vector.

    Raises:
        ValueError: an argument is invalid.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"\x01\x02")
        ...     file.flush()
        ...     np.fromfile(file.name, dtype="uint8")
        Array([1, 2], dtype=uint8)
    """
    return mnp.asarray(np.fromfile(*args, **kwargs))


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Create an array from the numbers of an iterable; arguments are those of `numpy.fromiter`.

    Args:
        *args: as for `numpy.fromiter`.
        **kwargs: as for `numpy.fromiter`.

    Returns:
        A vector.

    Raises:
        ValueError: an argument is invalid.

    Example:
        >>> np.fromiter((n * n for n in range(3)), dtype=int)
        Array([0, 1, 4], dtype=int32)
    """
    return mnp.asarray(np.fromiter(*args, **kwargs))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Import an array from another library by DLPack, without a copy if possible.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`.
        device: the device of the result; default: that of `x`.
        copy: True to copy always, False never, None if necessary.

    Returns:
        An array with the same shape and element type.

    Raises:
        ShapeError: `x` has no `__dlpack__`.

    Example:
        >>> import numpy
        >>> np.from_dlpack(numpy.arange(3, dtype="int32"))
        Array([0, 1, 2], dtype=int32)
    """
    from jax import numpy as jnp  # no sooner than it is called

    if not hasattr(x, "__dlpack__"):
        advice = "Give an array, or convert with mx.numpy.asarray."
        raise operands.shape_error("from_dlpack", "it has no __dlpack__", advice, repr(x))
    return jnp.from_dlpack(x, device=device, copy=copy)
