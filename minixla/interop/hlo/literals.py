"""Constants in HLO's notation as arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.element_types import ElementType
from minixla.core.shapes import AnyShape, Shape, TupleShape

__all__ = ["ELIDED", "parse_literal", "tuple_members"]

#: What XLA prints in place of many numbers.
ELIDED = "{...}"
_PAIR = re.compile(r"\(([^(),]*),([^(),]*)\)")
_OPERAND_SHAPE = re.compile(r"[a-z]\w*\[[^\]]*\](?:\{[^}]*\})?\s*", re.ASCII)
_PAYLOAD = re.compile(r"(-?)nan\(0x([0-9a-f]+)\)", re.IGNORECASE)
_VALUES = re.compile(r"[^{},\s][^{},]*")
_NOT_STRUCTURE = re.compile(r"[^{},]+")
_PREDICATES = {"true": True, "false": False, "1": True, "0": False}


def parse_literal(text: str, shape: Shape) -> Literal:
    """The constant of a shape.

    Args:
        text: what stands between the parentheses: `1.5`, `{1, 2}`, `{ {1, 2}, {3, 4} }`.
        shape: the declared shape.

    Raises:
        ValueError: the text is no such constant; the message is a clause that says why.
    """
    named = _OPERAND_SHAPE.match(text)  # older versions print the shape again
    text = text if named is None else text[named.end() :]
    if shape.rank == 0:
        return _scalar(text.strip(), shape)
    kind = shape.element_type
    body = text
    if kind.is_complex:  # the commas within pairs are none of the structure
        body = _PAIR.sub(lambda match: f"{match[1]};{match[2]}", text)
    values = _VALUES.findall(body)
    if len(values) != shape.size:
        raise ValueError(f"{len(values)} numbers are given for the {shape.size} of {shape}")
    # Comparing texts is quick where a walk over the braces would take long.
    sizes = shape.dimensions[: shape.dimensions.index(0) + 1] if shape.size == 0 else None
    expected = _structure(sizes or shape.dimensions, len(body))
    if _NOT_STRUCTURE.sub("", body) != expected and (shape.size or "".join(body.split()) != "{}"):
        raise ValueError(f"the braces do not show the dimensions of {shape}")
    array = _numbers([each.strip() for each in values], kind).reshape(shape.dimensions)
    array.flags.writeable = False
    return Literal(array, shape)


def tuple_members(text: str, shape: TupleShape) -> list[tuple[str, AnyShape]]:
    """The members' texts and shapes of a constant `(1, {2, 3})`.

    Raises:
        ValueError: there are not as many as the shape has.
    """
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")")):
        raise ValueError(f"it is no tuple such as {shape}")
    parts: list[str] = []
    depth = start = 0
    body = text[1:-1]
    for match in re.finditer(r"[{}(),]", body):
        if match[0] == ",":
            if not depth:
                parts.append(body[start : match.start()])
                start = match.end()
        else:
            depth += 1 if match[0] in "{(" else -1
    if parts or body.strip():
        parts.append(body[start:])
    if len(parts) != len(shape.elements):
        raise ValueError(f"{len(parts)} members are given for those of {shape}")
    return list(zip([each.strip() for each in parts], shape.elements, strict=True))


@lru_cache(maxsize=4096)
def _scalar(text: str, shape: Shape) -> Literal:
    kind = shape.element_type
    if kind.is_complex:
        text = _PAIR.sub(lambda match: f"{match[1]};{match[2]}", text)
    array = _numbers([text], kind).reshape(())
    array.flags.writeable = False
    return Literal(array, shape)


def _structure(sizes: Sequence[int], longest: int) -> str | None:
    """The braces and commas of an array's constant; None where they are more than `longest`."""
    count = 1
    for size in sizes:
        count *= size
        if count > longest:
            return None
    inner = ""
    for size in reversed(sizes):
        inner = "{" + ",".join([inner] * size) + "}"
    return inner


def _numbers(texts: Sequence[str], kind: ElementType) -> np.ndarray:
    if kind.kind == "pred":
        values = [_PREDICATES.get(each) for each in texts]
        if None in values:
            raise _refused(texts[values.index(None)], kind)
        return np.array(values, np.bool_)
    if kind.is_integer:
        return _integers(texts, kind)
    if kind.is_complex:
        halves = [each.split(";") for each in texts]
        wrong = next((each for each in halves if len(each) != 2), None)
        if wrong is not None:
            raise _refused(";".join(wrong), kind)
        array = np.empty(len(texts), kind.dtype)
        array.real = _floats([each[0].strip() for each in halves], kind.real)
        array.imag = _floats([each[1].strip() for each in halves], kind.real)
        return array
    return _floats(texts, kind)


def _integers(texts: Sequence[str], kind: ElementType) -> np.ndarray:
    is_signed = kind.kind == "signed"
    low = -(1 << (kind.bits - 1)) if is_signed else 0
    high = (1 << (kind.bits - is_signed)) - 1
    values = []
    for each in texts:
        # 64 bits have at most 20 digits.
        digits = each[1:] if each[:1] == "-" else each
        if not (digits.isascii() and digits.isdigit() and len(digits) < 25):
            raise _refused(each, kind)
        value = int(each)
        if not low <= value <= high:
            raise ValueError(f"{each} is out of the range of {kind.name}, [{low}, {high}]")
        values.append(value)
    return np.array(values, np.int64 if is_signed else np.uint64).astype(kind.dtype)


def _floats(texts: Sequence[str], kind: ElementType) -> np.ndarray:
    values = []
    for each in texts:
        try:
            # Python would take `1_0` for a number, and digits of other scripts.
            if "_" in each or not each.isascii():
                raise ValueError
            values.append(float(each))
        except ValueError:
            if _PAYLOAD.fullmatch(each) is None:
                raise _refused(each, kind) from None
            values.append(np.nan)
    wide = np.array(values, np.float64)
    with np.errstate(all="ignore"):
        array = wide.astype(kind.dtype)
        back = array.astype(np.float64)
    lost = np.isfinite(wide) & ~np.isfinite(back)
    lost |= np.isinf(wide) & (back != wide)
    if lost.any():
        raise ValueError(f"{texts[int(np.argmax(lost))]} is out of the range of {kind.name}")
    for index, each in enumerate(texts):
        if each[-1:] == ")":
            array[index] = _nan(each, kind)
    return array


def _nan(text: str, kind: ElementType) -> np.ndarray:
    """The NaN with a payload."""
    match = _PAYLOAD.fullmatch(text)
    assert match is not None, "checked when it was read"
    bits = np.array(np.nan, np.float64).astype(kind.dtype)
    whole = bits.reshape(1).view(f"u{kind.dtype.itemsize}")
    # Sign and exponent are those of the type's NaN.
    mantissa = _mantissa_bits(kind)
    payload = int(match[2], 16)
    if len(match[2]) > 16 or payload >> mantissa:
        raise ValueError(f"{text} has a payload of more than {mantissa} bits")
    sign = 1 << (kind.dtype.itemsize * 8 - 1)
    exponent = int(whole[0]) & ~((1 << mantissa) - 1) & ~sign
    found = exponent | payload | (sign if match[1] else 0)
    return np.array([found], whole.dtype).view(kind.dtype)[0]


def _mantissa_bits(kind: ElementType) -> int:
    names = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
    found = names.get(kind.name)
    if found is None:
        raise ValueError(f"a NaN of {kind.name} has no payload in HLO text")
    return found


def _refused(text: str, kind: ElementType) -> ValueError:
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    return ValueError(f"{shown!r} is no number of type {kind.name}")
