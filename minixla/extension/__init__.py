"""Custom operations: declarations, kernels for platforms, derivatives and batching rules."""

from minixla.engine import KernelError
from minixla.extension.building import BuildError, build_op_library
from minixla.extension.contexts import Context, InvalidArgumentError
from minixla.extension.decorated import Array, custom_op
from minixla.extension.loading import installed_ops, load_op_library
from minixla.extension.partial_shapes import PartialShape, unchanged_shape
from minixla.extension.registered import RegisteredOperation
from minixla.extension.registration import register_op

__all__ = ["Array", "BuildError", "Context", "InvalidArgumentError", "KernelError", "PartialShape"]
__all__ += [
    "RegisteredOperation",
    "build_op_library",
    "custom_op",
    "installed_ops",
    "load_op_library",
    "register_op",
    "unchanged_shape",
]
