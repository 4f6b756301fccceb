"""The element types that XLA does not support on a platform, by operation."""

from __future__ import annotations

from functools import lru_cache

from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.legalize.constants import classes

#: Types for all operations.
_BY_PLATFORM = {"tpu": {"c128", "s2", "u2"}}
#: Types for some operations; `any` means all types.
_UNSUPPORTED = {
    "tpu": {
        "DotGeneral RaggedDot ScaledDot": "s64 u64",
        "ConvGeneralDilated": "s64 u64",
        "Fft Lu ReducePrecision": "f64",
        "Svd Eigh Eig Schur Infeed Outfeed": "any",
    },
    "cuda": {
        "ConvGeneralDilated": "s2 u2 s4 u4 u8 s16 u16 s32 u32 s64 u64 f4e2m1fn",
        "Scan": "s4 u4",
        "Sort": "f4e2m1fn",
        "TopK": "s4 u4 f4e2m1fn",
        "Schur": "any",
    },
}
#: Types for operations on several arrays, such as a sort by keys.
_UNSUPPORTED_TOGETHER = {"cuda": {"Reduce Sort": "s4 u4"}}


@lru_cache(maxsize=1024)
def unsupported_types(
    operation: type[Operation], platform: str, is_of_several: bool = False
) -> tuple[str, ...]:
    """Return the types that XLA does not support for this operation, by name; `any` for all.

    Args:
        operation: the class of the operation.
        platform: such as `tpu`.
        is_of_several: whether the operation has several results.
    """
    tables = [_UNSUPPORTED.get(platform, {})]
    if is_of_several:
        tables.append(_UNSUPPORTED_TOGETHER.get(platform, {}))
    rows = [(names, types) for table in tables for names, types in table.items()]
    listed = [types for names, types in rows if operation in classes(names)]
    return tuple(name for types in listed for name in types.split())


@lru_cache(maxsize=4096)
def unsupported_type(
    operation: type[Operation], platform: str, shapes: tuple[AnyShape, ...], is_of_several: bool
) -> str | None:
    """Return an element type of the shapes that XLA does not support; `any`; or None."""
    own = {str(shape.element_type) for shape in shapes if isinstance(shape, Shape)}
    types = {*unsupported_types(operation, platform, is_of_several)}
    types |= _BY_PLATFORM.get(platform, set())
    return min(types & (own | {"any"}), default=None)
