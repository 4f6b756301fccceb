"""NumPy-style functions on top of the strict operations, with the API of jax.numpy.

Broadcasting follows NumPy, and type promotion follows JAX. Functions accept tracers, arrays and
numbers. Without tracers they compute immediately and return JAX arrays, or NumPy arrays in
`mx.reference`. Invalid arguments raise the errors of `minixla.core.errors`. In examples `np` is
this package.
"""

# ruff: noqa: F401, F403 - `offered` lists the public names

import importlib as _importlib
import typing as _typing

from minixla.collecting import collection_paused as _collection_paused

with _collection_paused(
    imports=True
):  # its passes over JAX's objects would take a tenth of the time
    from minixla.core.source import offer_functions as _offer_functions
    from minixla.core.tracing import Tracer
    from minixla.numpy import array_methods as _array_methods
    from minixla.numpy import arrays_of_keys as _arrays_of_keys
    from minixla.numpy import long_tail as _long_tail
    from minixla.numpy.arithmetic import *
    from minixla.numpy.creation import *
    from minixla.numpy.cumulative import *
    from minixla.numpy.dtypes import *
    from minixla.numpy.dtypes import __array_api_version__, __array_namespace_info__
    from minixla.numpy.dtypes import bool_ as bool
    from minixla.numpy.element_functions import offered
    from minixla.numpy.elementwise import *
    from minixla.numpy.exponentials import *
    from minixla.numpy.joining import *
    from minixla.numpy.linear_algebra import *
    from minixla.numpy.logic import *
    from minixla.numpy.long_tail import *
    from minixla.numpy.manipulation import *
    from minixla.numpy.matrices import *
    from minixla.numpy.reductions import *
    from minixla.numpy.sorting import *
    from minixla.numpy.statistics import *
    from minixla.numpy.taking import *
    from minixla.numpy.ufuncs import ufunc

if _typing.TYPE_CHECKING:
    from minixla.numpy import fft, linalg
    from minixla.numpy.convolutions import *
    from minixla.numpy.distributions import *
    from minixla.numpy.inverses import *
    from minixla.numpy.sets import *

# Modules that load when one of their functions is first used, and the names of these functions.
_LATE = {
    "convolutions": ["convolve", "correlate"],
    "distributions": ["histogram", "histogram2d", "histogramdd", "median", "nanmedian"],
    "inverses": ["acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh"],
    "sets": ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all"],
}
_LATE["distributions"] += ["nanpercentile", "nanquantile", "percentile", "quantile"]
_LATE["inverses"] += ["asin", "asinh", "atan", "atanh", "hypot", "logaddexp"]
_LATE["inverses"] += ["logaddexp2", "sinc", "sinh"]
_LATE["sets"] += ["unique_counts", "unique_inverse", "unique_values"]
_HOME_OF = {name: module for module, names in _LATE.items() for name in names}

_arrays_of_keys.install_on(globals())
_HELPERS = ("element_functions", "index_parsing", "indexing", "sort_keys", "ufuncs")
_array_methods.install_on(Tracer)
_own_names = offered(globals(), ["ufunc", *_long_tail.__all__], [*_HELPERS, "operands"])
__all__ = [*_own_names, "fft", "linalg", *_HOME_OF]  # pyright: ignore[reportUnsupportedDunderAll]  # computed
_offer_functions(__name__, __all__)


if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        if name in ("fft", "linalg"):
            return _importlib.import_module(f"minixla.numpy.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'minixla.numpy' has no attribute {name!r}")
        value = getattr(_importlib.import_module(f"minixla.numpy.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
