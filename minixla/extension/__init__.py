"""Operations of users: declared, with kernels for platforms, derivatives and batching rules."""

from minixla.extension.contexts import Context, InvalidArgumentError
from minixla.extension.partial_shapes import PartialShape, unchanged_shape
from minixla.extension.registration import RegisteredOperation, register_op

__all__ = ["Context", "InvalidArgumentError", "PartialShape", "RegisteredOperation", "register_op"]
__all__ += ["unchanged_shape"]
