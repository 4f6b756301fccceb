"""`jax.jit`'s callable object with our function for calls without a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def jitted(compiled: Any, missed: Callable[..., Any]) -> Any:
    """Return a function that runs compiled programs like `compiled`, at the same cost.

    Args:
        compiled: the object that `jax.jit` returned.
        missed: called as `missed(miss, *args, **kwargs)` if no compiled program matches. It returns
            the values of `miss(*args, **kwargs)`, JAX's own function: the result and two values by
            which later calls find the program, or None and False.
    """
    kept = compiled.__getstate__()
    kind: Any = type(compiled)
    wrapper = kind.__new__(kind)
    miss = partial(missed, kept["cache_miss"])
    wrapper.__setstate__({**kept, "cache_miss": miss})
    wrapper._fun = compiled._fun  # for `jax.debug_nans`
    return wrapper
