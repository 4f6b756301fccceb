"""closure_convert, custom_gradient and linear_transpose: functions derived from others."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, cast

from jax.core import Tracer as JaxTracer
from jax.tree_util import Partial, tree_map, tree_structure, tree_unflatten

from minixla.core.forward import has_tangent
from minixla.core.linear import spread, zeros_like
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer
from minixla.transforms import gradients
from minixla.transforms.arguments import Arguments, checked_function, misfit
from minixla.transforms.custom_derivatives import custom_vjp
from minixla.transforms.staging import stage
from minixla.transforms.typed_functions import Function, Parameters, Result
from minixla.typing import Array, PyTree
from minixla_ops.programs.call import call


@api_boundary
def closure_convert(
    fun: Callable[..., Result], *example_args: PyTree
) -> tuple[Callable[..., Result], list[Array]]:
    """Convert a function to one that reads no traced floats from outside (JAX: closure_convert).

    Traced values in its closure that may be differentiated become arguments. This allows passing a
    function that closes over differentiated values to a function with a custom derivative.

    Args:
        fun: a function of pytrees of arrays.
        example_args: arguments like those of later calls.

    Returns:
        `(converted, values)`, so that `converted(*args, *values)` is `fun(*args)`; `values` is the
        list of captured values.

    Raises:
        TransformError: from the converted function, if the arguments have another structure.

    Example:
        >>> def f(y):
        ...     converted, values = mx.closure_convert(lambda x: x * y, 1.0)
        ...     return converted(2.0, *values)
        >>> mx.grad(f)(3.0)
        Array(2., dtype=float32, weak_type=True)
    """
    return _converted(fun, example_args, has_tangent)


def _converted(
    fun: Function, example_args: Sequence[PyTree], is_wanted: Callable[[Array], bool]
) -> tuple[Function, list[Array]]:
    arguments = Arguments("closure_convert", fun, example_args)
    staged = stage(fun, arguments.signature(), arguments.name)
    flags = [
        isinstance(value, (Tracer, JaxTracer)) and bool(is_wanted(value)) for value in staged.read
    ]
    kept = [None if flag else value for flag, value in zip(flags, staged.read, strict=True)]
    count = len(example_args)

    @api_boundary
    def converted(*args: PyTree) -> PyTree:
        own = Arguments("closure_convert", fun, args[:count])
        if own.tree != arguments.tree:
            details = [f"got: {own.tree}", f"the example's: {arguments.tree}"]
            problem = "the arguments must have the structure of the example"
            raise misfit("closure_convert", problem, details, "Pass arguments like the example.")
        read = spread(flags, args[count:], kept)
        return staged.results(call(staged.graph, *read, *own.lifted()))

    values = [value for flag, value in zip(flags, staged.read, strict=True) if flag]
    return update_wrapper(converted, fun), values


def custom_gradient(
    fun: Callable[Parameters, tuple[Result, Callable[[Result], PyTree]]],
) -> Callable[Parameters, Result]:
    """Define a function that returns its derivative with its value (JAX: custom_gradient).

    Args:
        fun: returns `(value, pull)`. `pull(cotangent)` returns the cotangents of the arguments: a
            tuple with one for each, or the cotangent of a single argument. It may read values that
            `fun` has computed.

    Returns:
        A function of the same arguments that returns only the value, with that derivative in
        reverse mode.

    Raises:
        TransformError: from the function, if `fun` does not return a pair, or the cotangents do not
            match the arguments.

    Example:
        >>> @mx.custom_gradient
        ... def clipped(x):
        ...     return x, lambda cotangent: mx.numpy.clip(cotangent, -1, 1)
        >>> mx.grad(lambda x: 5 * clipped(x))(2.0)
        Array(1., dtype=float32, weak_type=True)
    """
    checked: Function = checked_function(fun, "custom_gradient")

    @custom_vjp
    def wrapped(*args: PyTree) -> PyTree:
        return checked(*args)[0]

    def forward(*args: PyTree) -> tuple[PyTree, Partial]:
        value, pull = checked(*args)
        cotangent = tree_map(
            lambda x: gradients.derivative_of(x, None), value
        )  # float0 for integers
        converted, read = _converted(pull, (cotangent,), lambda _: True)
        return value, Partial(lambda *operands: converted(operands[-1], *operands[:-1]), *read)

    def backward(pull: Partial, cotangent: PyTree) -> PyTree:
        gradients = pull(cotangent)
        return (gradients,) if tree_structure(gradients) == tree_structure(0) else gradients

    wrapped.defvjp(forward, backward)
    return cast(Any, update_wrapper(lambda *args: wrapped(*args), checked))


@api_boundary
def linear_transpose(fun: Function, *primals: PyTree) -> Callable[[PyTree], PyTree]:
    """Transpose a linear function (JAX: linear_transpose).

    It is the reverse derivative at zero. For a function that is not linear, this is the transpose
    of its derivative at zero, while JAX raises an error.

    Args:
        fun: a linear function of pytrees of arrays.
        primals: arguments like its own; only shapes matter, so `mx.ShapeDtypeStruct` is accepted.

    Returns:
        A function that takes a cotangent, like the result of `fun`, and returns a tuple with one
        for each of `primals`.

    Raises:
        TransformError: from that function, if the cotangent does not match the result.

    Example:
        >>> mx.linear_transpose(lambda x: 3 * x.sum(), np.float32([1, 2]))(1.0)
        (Array([3., 3.], dtype=float32),)
    """
    arguments = Arguments("linear_transpose", fun, primals)
    shapes = arguments.shapes()

    def transposed(cotangent: PyTree) -> PyTree:
        zeros = tree_unflatten(arguments.tree, list(map(zeros_like, shapes)))
        return gradients.vjp(fun, *zeros)[1](cotangent)

    return transposed
