"""export: our functions as bytes that other programs read."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.export

from minixla.core.errors import MinixlaError, TransformError, check_arguments, explain
from minixla.core.tracebacks import api_boundary
from minixla.extension.libraries import TARGETS
from minixla.interop.reading import require_flatbuffers
from minixla.transforms.arguments import Arguments, checked_function
from minixla.transforms.jit import jit
from minixla.typing import PyTree


@api_boundary
def export(
    fun: Callable[..., PyTree],
    *args: PyTree,
    platforms: Sequence[str] | None = None,
    vjp_order: int = 0,
    **kwargs: PyTree,
) -> bytes:
    """A function for arguments of the given shapes, as bytes.

    `jax.export.deserialize` reads them where minixla is not installed, and
    `mx.import_stablehlo` reads them too.

    Args:
        fun: a function of pytrees of arrays, jitted or not.
        *args: arguments, or jax.ShapeDtypeStructs of their shapes.
        platforms: those that it is compiled for, such as `("cpu", "cuda", "tpu")`; default: the
            one that runs here.
        vjp_order: how many times the reader can take reverse derivatives with `jax.grad`;
            `mx.import_stablehlo` needs none to do so.
        **kwargs: arguments by name.

    Returns:
        What jax.export writes, as bytes.

    Raises:
        TransformError: the function calls back into Python, or reads and writes queues of this
            process; or takes pytrees that jax.export cannot write; or the package flatbuffers,
            which jax.export needs, is not installed.

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
    compiled = jax.jit(lambda *a, **k: jitted(*a, **k))
    try:
        disabled = [jax.export.DisabledSafetyCheck.custom_call(target) for target in TARGETS]
        options: Any = {"platforms": platforms, "disabled_checks": disabled}
        exported = jax.export.export(compiled, **options)(*args, **kwargs)
        return bytes(exported.serialize(vjp_order=vjp_order))
    except MinixlaError:
        raise
    except (OverflowError, TypeError):
        Arguments("export", fun, args, kwargs).shapes()  # if one is no array it says so
        raise
    except (NotImplementedError, ValueError) as error:
        raise explain(
            TransformError,
            "export",
            f"{getattr(fun, '__name__', 'the function')} cannot be written",
            [str(error).split("\n")[0][:300]],
            "Prints, callbacks, infeed and outfeed belong to this process: leave them out. Classes "
            "of pytrees are registered by jax.export.register_pytree_node_serialization.",
        ) from error
