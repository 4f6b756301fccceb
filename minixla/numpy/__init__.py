"""NumPy's rules on top of the strict operations: the functions of jax.numpy.

Broadcasting is NumPy's, type promotion JAX's. Functions take tracers, arrays and numbers; given
nothing that is traced they compute at once and return JAX arrays (in `mx.reference`, NumPy's).
The names are those in the `__all__` of each room.
"""

# ruff: noqa: F403 - each room lists its names

from minixla.numpy import arithmetic as _arithmetic
from minixla.numpy import array_methods as _array_methods  # noqa: F401 - methods of tracers
from minixla.numpy import averages as _averages
from minixla.numpy import creation as _creation
from minixla.numpy import cumulative as _cumulative
from minixla.numpy import differences as _differences
from minixla.numpy import dtypes as _dtypes
from minixla.numpy import einsum as _einsum
from minixla.numpy import elementwise as _elementwise
from minixla.numpy import inverses as _inverses
from minixla.numpy import joining as _joining
from minixla.numpy import linalg
from minixla.numpy import linear_algebra as _linear_algebra
from minixla.numpy import logic as _logic
from minixla.numpy import manipulation as _manipulation
from minixla.numpy import matrices as _matrices
from minixla.numpy import padding as _padding
from minixla.numpy import reductions as _reductions
from minixla.numpy import taking as _taking
from minixla.numpy.arithmetic import *
from minixla.numpy.averages import *
from minixla.numpy.creation import *
from minixla.numpy.cumulative import *
from minixla.numpy.differences import *
from minixla.numpy.dtypes import *
from minixla.numpy.dtypes import bool_ as bool
from minixla.numpy.einsum import *
from minixla.numpy.elementwise import *
from minixla.numpy.inverses import *
from minixla.numpy.joining import *
from minixla.numpy.linear_algebra import *
from minixla.numpy.logic import *
from minixla.numpy.manipulation import *
from minixla.numpy.matrices import *
from minixla.numpy.padding import *
from minixla.numpy.reductions import *
from minixla.numpy.taking import *

__all__ = ["bool", "linalg"]
__all__ += _arithmetic.__all__
__all__ += _averages.__all__
__all__ += _creation.__all__
__all__ += _cumulative.__all__
__all__ += _differences.__all__
__all__ += _dtypes.__all__
__all__ += _einsum.__all__
__all__ += _elementwise.__all__
__all__ += _inverses.__all__
__all__ += _joining.__all__
__all__ += _linear_algebra.__all__
__all__ += _logic.__all__
__all__ += _manipulation.__all__
__all__ += _matrices.__all__
__all__ += _padding.__all__
__all__ += _reductions.__all__
__all__ += _taking.__all__
