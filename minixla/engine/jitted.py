"""`jax.jit`'s own callable object with a function of ours where it does not know what to do."""

from collections.abc import Callable
from functools import partial
from typing import Any

from jax._src import core

from minixla.core.state import ThreadState

# JAX's current trace is part of what its object finds programs by. This one evaluates like the one
# that is current outside all of JAX's transformations, so that programs found there are not found.
_OBSERVED = core.EvalTrace()


def observe(observed: bool) -> bool:
    """Has every call of a jitted function reach our current trace, or no longer; what was before.

    Where JAX is tracing they do in any case.
    """
    current = core.trace_ctx.trace
    if observed and current is core.eval_trace:
        core.trace_ctx.set_trace(_OBSERVED)
        return False
    if not observed and current is _OBSERVED:
        core.trace_ctx.set_trace(core.eval_trace)
    return True


ThreadState.observe = staticmethod(observe)


def jitted(compiled: Any, missed: Callable[..., Any]) -> Any:
    """A function that runs programs as `compiled`, which `jax.jit` gave, does, at the same cost.

    Only a call for which no program is found goes to Python: to `missed(made, *args, **kwargs)`. It
    returns what `made(*args, **kwargs)`, JAX's way, does: the result, and two things by which a
    program is found from then on; None and False where none is to be.
    """
    kept = compiled.__getstate__()

    def made(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        result, found, again = kept["cache_miss"](*args, **kwargs)
        return result, None if core.trace_ctx.trace is _OBSERVED else found, again

    kind: Any = type(compiled)
    wrapper = kind.__new__(kind)
    wrapper.__setstate__({**kept, "cache_miss": partial(missed, made)})
    wrapper._fun = compiled._fun  # for `jax.debug_nans`
    return wrapper
