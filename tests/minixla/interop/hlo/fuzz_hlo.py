"""Damaged HLO texts."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

_NUMBERS = ["0", "1", "2", "3", "7", "-1", "1000000", "99999999999", "9" * 20, "9" * 5000]


def damaged(source: str, random_: random.Random) -> str:
    """A text cut off, with flipped bits, other numbers, or words that are moved or missing."""
    at = random_.randrange(len(source))
    how = random_.randrange(6)
    if how == 0:
        return source[:at]
    if how == 1:
        return _flipped(source, random_)
    if how == 2:
        return _swapped(source.split(" "), random_)
    if how == 3:
        number = random_.choice(list(re.finditer(r"\d+", source)))
        return source[: number.start()] + random_.choice(_NUMBERS) + source[number.end() :]
    end = min(len(source), at + random_.randrange(1, 40))
    if how == 4:
        return source[:at] + source[end:]
    other = random_.randrange(len(source))
    return source[:other] + source[at:end] * random_.randrange(1, 3) + source[other:]


def _flipped(source: str, random_: random.Random) -> str:
    data = bytearray(source.encode())
    for _ in range(random_.randrange(1, 4)):
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    return bytes(data).decode(errors="replace")


def _swapped(words: Sequence[str], random_: random.Random) -> str:
    found = list(words)
    for _ in range(random_.randrange(1, 4)):
        found[random_.randrange(len(found))] = random_.choice(words)
    return " ".join(found)
