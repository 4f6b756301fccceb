"""The element of an operand that makes an element of a result infinite or NaN."""

from typing import Any, NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Instruction, Value
from minixla.tools.comparison import wide

#: Replaces elements that are not finite; most functions are defined there.
_HARMLESS = 0.5


class Element(NamedTuple):
    """An element of a value."""

    value: Value
    index: tuple[int, ...]


def is_bad(array: Any) -> np.ndarray:
    """Mark the NaN and infinities of an array; mark nothing in integers and tuples."""
    if not isinstance(array, np.ndarray) or not element_type(array.dtype).is_inexact:
        return np.zeros(np.shape(array) if isinstance(array, np.ndarray) else (), bool)
    return ~np.isfinite(wide(array))


def cause(step: Instruction, values: dict[Value, Any], element: Element) -> Element | None:
    """Return the element of an operand that makes an element of the result infinite or NaN.

    Prefer a NaN to an infinity. Return None if the instruction makes it from finite operands.
    """
    read = [values[operand] for operand in step.operands]
    bad = [np.flatnonzero(is_bad(array)) for array in read]
    if not any(map(len, bad)):
        return None
    result = values[element.value]
    if step.op.is_elementwise and all(x.shape in (result.shape, ()) for x in read):
        return _elementwise_cause(step, read, element)
    return _searched(step, read, bad, element)


def _elementwise_cause(step: Instruction, read: list[Any], element: Element) -> Element | None:
    index = element.index
    pairs = list(zip(step.operands, read, strict=True))
    if step.op.name == "Select":
        is_chosen = read[0][index if read[0].ndim else ()]
        pairs = [pairs[1] if is_chosen else pairs[2]]
    elements = [
        (operand, array[at], at) for operand, array in pairs for at in [index[: array.ndim]]
    ]
    for is_special in (np.isnan, lambda x: ~np.isfinite(x)):
        for operand, number, at in elements:
            number = np.asarray(number)
            if element_type(number.dtype).is_inexact and is_special(wide(number)):
                return Element(operand, at)
    return None


def _searched(
    step: Instruction, read: list[Any], bad: list[np.ndarray], element: Element
) -> Element | None:
    """Find the cause by evaluating the instruction with some elements replaced."""
    owners = np.concatenate([np.full(len(places), number) for number, places in enumerate(bad)])
    places = np.concatenate(bad)
    is_nan = np.concatenate(
        [
            np.isnan(wide(x)).ravel()[at] if len(at) else at > 0
            for x, at in zip(read, bad, strict=True)
        ]
    )
    output = element.value.index

    def stays_bad(kept: np.ndarray) -> bool:
        operands = list(read)
        for number, array in enumerate(read):
            replaced = np.setdiff1d(bad[number], places[kept[owners[kept] == number]])
            if len(replaced):
                flat = array.ravel().copy()
                flat[replaced] = np.asarray(_HARMLESS).astype(array.dtype)
                operands[number] = flat.reshape(array.shape)
        with np.errstate(all="ignore"):
            outcome = step.op.reference(*operands)
        result = np.asarray(outcome if step.single else outcome[output])
        return bool(is_bad(result)[element.index])

    if stays_bad(np.zeros(0, int)):
        return None
    kept = np.flatnonzero(is_nan)
    if not len(kept) or not stays_bad(kept):
        kept = np.arange(len(places))
    while len(kept) > 1:
        first, second = np.array_split(kept, 2)
        if stays_bad(first):
            kept = first
        elif stays_bad(second):
            kept = second
        else:  # only both halves together are the cause
            break
    number, place = int(owners[kept[0]]), int(places[kept[0]])
    index = tuple(int(n) for n in np.unravel_index(place, read[number].shape))
    return Element(step.operands[number], index)
