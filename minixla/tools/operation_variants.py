"""Variants of a case: other arguments and attributes, derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from minixla.core import attributes as kinds
from minixla.core.element_types import ELEMENT_TYPES
from minixla.extension.attribute_types import EnumerationKind, TypeKind
from minixla.tools.comparison import real_part_info

#: The element types to try if a case varies them.
_TYPES = ("f16", "bf16", "f32", "f64", "s8", "s32", "u8", "pred", "c64")


def variants_of(
    op: Any, arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield the name, arguments and attributes of each variant."""

    def changed(change: Callable[[np.ndarray], Any]) -> tuple[Any, ...]:
        return jax.tree.map(lambda x: change(np.asarray(x)), arguments)

    for size in (0, 1):
        yield f"sizes {size}", changed(lambda x, n=size: x[(slice(n),) * x.ndim]), attributes
    yield "special values", changed(_special), attributes
    definition = getattr(op, "definition", None)
    if definition is None:
        return
    types = [definition.attributes[name].kind for name in definition.inferred]
    if any(isinstance(getattr(kind, "member", kind), TypeKind) for kind in types):
        for name in _TYPES:
            dtype = ELEMENT_TYPES[name].dtype
            yield f"of {name}", changed(lambda x, d=dtype: x.astype(d)), attributes
    for name, declared in definition.attributes.items():
        if name not in definition.inferred:
            default = None if declared.default is kinds.REQUIRED else declared.default
            for value in _other_values(declared.kind, attributes.get(name, default)):
                yield f"{name} = {value!r}", arguments, {**attributes, name: value}


def _special(array: np.ndarray) -> np.ndarray:
    """Return an array of the same shape and type that holds special values."""
    if array.dtype.kind == "b":
        return ~array
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values: Any = [limits.min, limits.max, 0, 1]
    else:
        limits = real_part_info(array.dtype)
        values = [np.nan, np.inf, -np.inf, -0.0, float(limits.max), float(limits.tiny), 1.0]
    return np.resize(np.array(values).astype(array.dtype), array.shape)


def _other_values(kind: Any, value: Any) -> list[Any]:
    if isinstance(kind, EnumerationKind):
        return [name for name in kind.names if name != value]
    if isinstance(kind, kinds.Boolean):
        return [not value]
    if isinstance(kind, kinds.Integer) and value is not None:
        return [value + 1]
    if isinstance(kind, kinds.Float) and value is not None:
        return [value + 0.5]
    return []
