"""Types of operations that are made from functions, for type checkers; nothing here runs."""

from typing import Generic, ParamSpec, TypeVar

from minixla.extension.registered import RegisteredOperation

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class OperationOf(RegisteredOperation, Generic[Parameters, Result]):
    """The result of `custom_op`: the operation, which is called like the function."""

    __name__: str

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Return the function's result."""
        raise NotImplementedError
