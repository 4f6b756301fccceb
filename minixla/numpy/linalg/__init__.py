"""`mx.numpy.linalg`: norms, and the products that NumPy and the array API list there."""

from minixla.numpy.linalg.matrix_functions import (
    diagonal,
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    trace,
    vector_norm,
)
from minixla.numpy.linear_algebra import cross, matmul, outer, tensordot, vecdot
from minixla.numpy.manipulation import matrix_transpose

__all__ = ["cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose"]
__all__ += ["multi_dot", "norm", "outer", "tensordot", "trace", "vecdot", "vector_norm"]
