"""NumPy evaluation. The module is callable: `mx.reference(fun)` evaluates `fun` in NumPy."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from minixla.reference.trace import ReferenceTrace, ReferenceTracer
from minixla_ops.random.random_samples import seed

__all__ = ["ReferenceTrace", "ReferenceTracer", "seed"]


class _CallableModule(types.ModuleType):
    """Lets `mx.reference` be both this package and the transformation of the same name."""

    def __call__(self, fun: Callable[..., Any], precision: str | None = None) -> Callable[..., Any]:
        """See `minixla.transforms.evaluation.reference`."""
        from minixla.transforms.evaluation import reference

        return reference(fun, precision)


sys.modules[__name__].__class__ = _CallableModule
