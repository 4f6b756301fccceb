"""What type checkers know of operations that are made of functions; nothing here runs."""

from typing import Generic, ParamSpec, TypeVar

from minixla.extension.registered import RegisteredOperation

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class OperationOf(RegisteredOperation, Generic[Parameters, Result]):
    """What `custom_op` gives: the operation, called as the function."""

    __name__: str

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """The function's result."""
        raise NotImplementedError
