"""What JAX says when it meets one of our tracers."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import jax
import jaxlib
from jax._src import core as jax_core
from jax._src import dtypes

from minixla.core.batching import BatchTracer
from minixla.core.errors import ForeignCallError, explain
from minixla.core.forward import ForwardTracer
from minixla.core.reverse import LinearTracer, ReverseTracer
from minixla.core.source import skip_package
from minixla.core.tracing import GraphTracer, Tracer, leaked
from minixla.reference.trace import ReferenceTracer

__all__ = ["register"]

_TRACERS = (
    Tracer,
    GraphTracer,
    ForwardTracer,
    ReverseTracer,
    LinearTracer,
    BatchTracer,
    ReferenceTracer,
)


def _refuse(tracer: Any) -> NoReturn:
    if not tracer._trace.alive:
        raise leaked(tracer, "a JAX function")
    raise explain(
        ForeignCallError,
        "a JAX function",
        "its argument is a minixla tracer, which JAX cannot read",
        [f"the argument is {tracer!r}, made by {tracer._trace.transformation}"],
        "Call the function of the same name in mx.numpy or mx.nn (mx.numpy.sin, not jnp.sin; "
        "mx.numpy.take for a JAX array indexed by it), or "
        "make the JAX function the outer one: ours can be called inside jax.jit.",
    )


def register() -> None:
    """Makes JAX raise our error for each tracer class, and its frames no user code."""
    for library in (jax, jaxlib):
        skip_package(os.path.dirname(str(library.__file__)))
    for kind in _TRACERS:
        # The first is asked by jax.jit and jax.numpy, the second by each primitive.
        jax_core.pytype_aval_mappings[kind] = _refuse
        dtypes.register_canonicalize_value_handler(kind, _refuse)
