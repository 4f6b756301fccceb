"""JAX functions that compile to equally fast code, and NumPy functions for files and printing."""

from typing import Any

import jax
import numpy as np
from jax.numpy import (
    allclose,
    append,
    apply_along_axis,
    apply_over_axes,
    array_equal,
    array_equiv,
    bartlett,
    bincount,
    bitwise_count,
    blackman,
    block,
    c_,
    choose,
    corrcoef,
    count_nonzero,
    cov,
    cross,
    delete,
    diag_indices,
    diag_indices_from,
    diagflat,
    ediff1d,
    einsum_path,
    fill_diagonal,
    flip,
    fliplr,
    flipud,
    frexp,
    frombuffer,
    fromfunction,
    frompyfunc,
    fromstring,
    geomspace,
    hamming,
    hanning,
    histogram_bin_edges,
    i0,
    indices,
    inner,
    isclose,
    iscomplex,
    iscomplexobj,
    isneginf,
    isposinf,
    isreal,
    isrealobj,
    isscalar,
    kaiser,
    kron,
    ldexp,
    linspace,
    load,
    logspace,
    mask_indices,
    matvec,
    meshgrid,
    mgrid,
    nan_to_num,
    ogrid,
    outer,
    packbits,
    pad,
    piecewise,
    place,
    poly,
    polyadd,
    polyder,
    polydiv,
    polyfit,
    polyint,
    polymul,
    polysub,
    polyval,
    put,
    put_along_axis,
    r_,
    ravel_multi_index,
    resize,
    roll,
    rollaxis,
    roots,
    rot90,
    sort_complex,
    spacing,
    take_along_axis,
    tensordot,
    tile,
    trapezoid,
    trim_zeros,
    unpackbits,
    unravel_index,
    unwrap,
    vander,
    vdot,
    vecdot,
    vecmat,
    vectorize,
)

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.numpy import operands
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array

__all__ = ["allclose", "append", "apply_along_axis", "apply_over_axes", "array_equal"]
__all__ += ["array_equiv", "array_repr", "array_str", "bartlett", "bincount", "bitwise_count"]
__all__ += ["blackman", "block", "c_", "choose", "ComplexWarning", "corrcoef", "count_nonzero"]
__all__ += ["cov", "cross", "delete", "diag_indices", "diag_indices_from", "diagflat"]
__all__ += ["ediff1d", "einsum_path", "fill_diagonal", "flip", "fliplr", "flipud"]
__all__ += ["frexp", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter"]
__all__ += ["frompyfunc", "fromstring", "geomspace", "get_printoptions", "hamming", "hanning"]
__all__ += ["histogram_bin_edges", "i0", "index_exp", "indices", "inner", "isclose", "iscomplex"]
__all__ += ["iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "iterable"]
__all__ += ["kaiser", "kron", "ldexp", "linspace", "load", "logspace", "mask_indices", "matvec"]
__all__ += ["meshgrid", "mgrid", "nan_to_num", "ogrid", "outer", "packbits", "pad", "piecewise"]
__all__ += ["place", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul"]
__all__ += ["polysub", "polyval", "printoptions", "put", "put_along_axis", "r_"]
__all__ += ["ravel_multi_index", "resize", "roll", "rollaxis", "roots", "rot90", "s_", "save"]
__all__ += ["savez", "set_printoptions", "sort_complex", "spacing", "take_along_axis", "tensordot"]
__all__ += ["tile", "trapezoid", "trim_zeros", "unpackbits", "unravel_index", "unwrap", "vander"]
__all__ += ["vdot", "vecdot", "vecmat", "vectorize"]


# NumPy's functions for files and printing accept arrays, not traced values.
ComplexWarning, iterable = np.exceptions.ComplexWarning, np.iterable
s_, index_exp = np.s_, np.index_exp
array_repr, array_str = np.array_repr, np.array_str
get_printoptions, set_printoptions = np.get_printoptions, np.set_printoptions
printoptions, save, savez = np.printoptions, np.save, np.savez


@documented(PARAMETERS)
def fromfile(*args: Any, **kwargs: Any) -> Array:
    r"""Read an array from a file; arguments are those of `numpy.fromfile`.

    Args:
        *args: as for `numpy.fromfile`.
        **kwargs: as for `numpy.fromfile`.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"\x01\x02")
        ...     file.flush()
        ...     np.fromfile(file.name, dtype="uint8")
        Array([1, 2], dtype=uint8)
    """
    return mnp.asarray(np.fromfile(*args, **kwargs))


@documented(PARAMETERS)
def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Create an array from the numbers of an iterable; arguments are those of `numpy.fromiter`.

    Args:
        *args: as for `numpy.fromiter`.
        **kwargs: as for `numpy.fromiter`.

    Example:
        >>> np.fromiter((n * n for n in range(3)), dtype=int)
        Array([0, 1, 4], dtype=int32)
    """
    return mnp.asarray(np.fromiter(*args, **kwargs))


@documented(PARAMETERS)
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Import an array from another library through DLPack, without a copy if possible.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`.
        device: the device of the result; default: that of `x`.
        copy: True to copy always, False never, None if necessary.

    Returns:
        An array with the same shape and element type.

    Example:
        >>> import numpy
        >>> np.from_dlpack(numpy.arange(3, dtype="int32"))
        Array([0, 1, 2], dtype=int32)
    """
    if not hasattr(x, "__dlpack__"):
        advice = "Pass an array, or convert with mx.numpy.asarray."
        raise operands.shape_error("from_dlpack", "it has no __dlpack__", advice, repr(x))
    return jax.numpy.from_dlpack(x, device=device, copy=copy)
