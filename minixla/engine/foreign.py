"""Register our tracers with JAX, so that its functions accept them."""

from __future__ import annotations

import os
from typing import Any

import jax
import jaxlib

from minixla.core.source import skip_package
from minixla.engine.jax_private import JVPTracer, canonicalized_by, pytype_aval_mappings
from minixla.engine.random_keys import TRACERS, KeyTracer

#: A value that JAX treats as being differentiated.
DIFFERENTIATED: Any = object.__new__(JVPTracer)
DIFFERENTIATED.primal = DIFFERENTIATED.tangent = None


def _aval(value: Any) -> Any:
    return value.aval


# JAX looks up classes, not their bases. None: the values need no canonicalization.
for _kind in (*TRACERS, KeyTracer):
    pytype_aval_mappings[_kind] = _aval
    canonicalized_by(_kind, None)
# Frames of these packages are not user code.
for _library in (jax, jaxlib):
    skip_package(os.path.dirname(str(_library.__file__)))
