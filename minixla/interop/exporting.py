"""`export`: functions as bytes that other programs read."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.errors
import jax.export

from minixla.core.errors import (
    MinixlaError,
    TransformError,
    check_arguments,
    explain,
)
from minixla.core.shapes import symbolic_sizes
from minixla.core.tracebacks import api_boundary
from minixla.extension.libraries import TARGETS
from minixla.interop.reading import require_flatbuffers
from minixla.interop.symbolic_export import has_symbolic_sizes, symbolic_function
from minixla.transforms.arguments import Arguments, checked_function
from minixla.transforms.jit import jit
from minixla.transforms.pytree_paths import leaf_shapes
from minixla.typing import PyTree

_JAX = str(Path(jax.__file__ or "").parent)


@api_boundary
def export(
    fun: Callable[..., PyTree],
    *args: PyTree,
    platforms: Sequence[str] | None = None,
    vjp_order: int = 0,
    **kwargs: PyTree,
) -> bytes:
    """Export a function for arguments of the given shapes as bytes.

    `jax.export.deserialize` reads them without minixla, and `mx.import_stablehlo` reads them
    too.

    Args:
        fun: a function of pytrees of arrays, jitted or not.
        *args: arguments, or jax.ShapeDtypeStructs of their shapes, whose sizes may be symbolic
            (`jax.export.symbolic_shape`).
        platforms: the platforms that it is compiled for, such as `("cpu", "cuda", "tpu")`; default:
            the current one.
        vjp_order: how many times the reader can take reverse derivatives with `jax.grad`;
            `mx.import_stablehlo` works with 0.
        **kwargs: keyword arguments.

    Returns:
        The bytes that jax.export writes.

    Raises:
        TransformError: the function calls back into Python, or uses queues of this process; it
            takes pytrees that jax.export cannot write; the package flatbuffers, which jax.export
            needs, is not installed; or an operation does not allow symbolic sizes, in which case
            the message names the operation and its line.

    Example:
        >>> written = mx.export(lambda x: x + 1, np.float32(0))
        >>> mx.import_stablehlo(written)(np.float32(2))
        Array(3., dtype=float32)
    """
    checked_function(fun, "export")
    require_flatbuffers(TransformError, "export")
    is_list = isinstance(platforms, (list, tuple)) and all(isinstance(x, str) for x in platforms)
    check_arguments(
        "export",
        platforms=(platforms, platforms is None or is_list, "a list of names, or None"),
        vjp_order=(vjp_order, isinstance(vjp_order, int) and vjp_order >= 0, "a number from 0 on"),
    )
    jitted = fun if hasattr(fun, "lower") else jit(fun)
    disabled = [jax.export.DisabledSafetyCheck.custom_call(target) for target in TARGETS]
    options: Any = {"platforms": platforms, "disabled_checks": disabled}
    is_symbolic = has_symbolic_sizes(args, kwargs)
    try:
        if not is_symbolic:
            return bytes(_exported(jitted, options, args, kwargs).serialize(vjp_order=vjp_order))
        return _with_symbolic_sizes(fun, options, args, kwargs, vjp_order)
    except jax.errors.InconclusiveDimensionOperation as error:
        problem = f"{getattr(fun, '__name__', 'the function')} depends on a symbolic size"
        details = [str(error).split("\n")[0], f"at {_users_line(error)}"]
        advice = "State a constraint (symbolic_shape(..., constraints=['b >= 4'])), or export "
        advice += "one program for each size."
        raise explain(TransformError, "export", problem, details, advice) from error
    except (OverflowError, TypeError):
        _check_static_leaves(Arguments("export", fun, args, kwargs))
        raise
    except (NotImplementedError, ValueError) as error:
        raise explain(
            TransformError,
            "export",
            f"{getattr(fun, '__name__', 'the function')} cannot be written",
            [str(error).split("\n")[0][:300]],
            "Prints, callbacks, infeed and outfeed belong to this process: remove them. Register "
            "classes of pytrees with jax.export.register_pytree_node_serialization.",
        ) from error


def _with_symbolic_sizes(
    fun: Callable[..., PyTree], options: Any, args: Any, kwargs: Any, vjp_order: int
) -> bytes:
    """Export a function that JAX can trace with symbolic sizes, or by its programs at several."""
    try:
        return bytes(_exported(fun, options, args, kwargs).serialize(vjp_order=vjp_order))
    except MinixlaError as error:
        if vjp_order:
            advice = "Set vjp_order=0, and export the gradient as a separate function."
            problem = "derivatives of our programs with symbolic sizes cannot be written"
            raise explain(TransformError, "export", problem, (), advice) from error
    return bytes(_exported(symbolic_function(fun), options, args, kwargs).serialize())


def _check_static_leaves(arguments: Arguments) -> None:
    """Raise an error that names a leaf if it is not an array."""
    pairs = zip(arguments.leaves, arguments.where(), strict=True)
    static = [pair for pair in pairs if not symbolic_sizes(pair[0])]
    leaf_shapes("export", [leaf for leaf, _ in static], lambda: [place for _, place in static])


def _users_line(error: Exception) -> str:
    """Return the line that compared a symbolic size."""
    frames = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(_JAX)
    ]
    file, number = frames[-1]
    return f"{file}:{number}"


def _exported(
    fun: Callable[..., PyTree], options: Any, args: Any, kwargs: Any
) -> jax.export.Exported:
    compiled = jax.jit(lambda *a, **k: fun(*a, **k))
    return jax.export.export(compiled, **options)(*args, **kwargs)
