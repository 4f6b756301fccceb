"""Functions that display values and shardings while programs run, named as in `jax.debug`."""

from jax.debug import (
    DebugEffect,
    OrderedDebugEffect,
    breakpoint,
    inspect_array_sharding,
    log,
    visualize_array_sharding,
    visualize_sharding,
)

from minixla.transforms.debugging import debug_callback as callback
from minixla.transforms.debugging import debug_print as print

__all__ = ["DebugEffect", "OrderedDebugEffect", "breakpoint", "callback"]
__all__ += ["inspect_array_sharding", "log", "print", "visualize_array_sharding"]
__all__ += ["visualize_sharding"]


def __dir__() -> list[str]:
    return __all__
