"""Read the large constants of a program's text before MLIR does.

MLIR keeps a token for each number of a list, and Python's interface copies the rest several
times; here each is read once, in pieces. MLIR reads everything else unchanged.
"""

import binascii
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from minixla.core.element_types import BY_STABLEHLO, ElementType

#: Number of characters; MLIR reads shorter ones.
_LARGE = 1 << 16
_PIECE = 1 << 22
_NAME = "minixla_text"
#: The text before and after a constant's value.
_BEFORE = re.compile(r'\b(?:stablehlo|chlo)\.constant(?:"\(\)\s*<?\{\s*value\s*=)?\s*\Z')
_AFTER = re.compile(r'"?>\s*:\s*tensor<((?:\d{1,18}x)+)(complex<f\d\d>|[a-z]\w*)>')
_NEAR = 200
_OPENING = re.compile(rb'dense<(?:("0x)|\[)')
# Numbers of these types are rounded once, as in MLIR.
_LISTED = frozenset(
    ["f16", "f32", "f64", *[f"{u}i{bits}" for u in ("", "u") for bits in (8, 16, 32)]]
)
_BLANKS = bytes.maketrans(b"[]", b"  ")

_Reader = Callable[[bytes, int, int, ElementType, Sequence[int]], np.ndarray]


def without_constants(source: str | bytes) -> tuple[str | bytes, dict[str, np.ndarray]]:
    """Replace the large constants of a text by resources; return the text and the bytes by name.

    Bytes that are not UTF-8 are returned unchanged.
    """
    constants: dict[str, np.ndarray] = {}
    if len(source) < _LARGE:
        return source, constants
    text = source if isinstance(source, bytes) else source.encode(errors="surrogatepass")
    resource, values = f"dense_resource<{_NAME}", [*_values(text)]
    if not values or resource.encode() in text:
        return source, constants
    parts: list[bytes] = []
    done = 0
    for start, end, reader in values:
        head = text[max(done, start - _NEAR) : start].decode("latin-1")
        after = _AFTER.match(text[end : end + _NEAR].decode("latin-1"))
        if after is None or not _BEFORE.search(head.removesuffix("dense<")):
            continue
        sizes = [int(digits) for digits in after[1][:-1].split("x")]
        try:
            data = reader(text, start, end, BY_STABLEHLO[after[2]], sizes)
        except (KeyError, ValueError, OverflowError):  # MLIR reports the error
            continue
        parts += [text[done : start - len("dense<")], f"{resource}{len(constants)}".encode()]
        constants[f"{_NAME}{len(constants)}"] = data.reshape(-1).view(np.uint8)
        done = end + (text[end : end + 1] == b'"')
    if not constants:
        return source, constants
    short = b"".join([*parts, text[done:]])
    whole = short if isinstance(source, bytes) else short.decode(errors="surrogatepass")
    return whole, constants


def _values(text: bytes) -> Iterator[tuple[int, int, _Reader]]:
    """Yield the start, the end and the reader of each large constant's value."""
    match = _OPENING.search(text)
    while match is not None:
        closing, reader = (b'"', _hexadecimal) if match[1] else (b">", _listed)
        end = text.find(closing, match.end())
        if end < 0:
            return
        if end - match.start() >= _LARGE:
            yield match.start() + len("dense<"), end, reader
        match = _OPENING.search(text, end)


def _hexadecimal(
    text: bytes, start: int, end: int, kind: ElementType, sizes: Sequence[int]
) -> np.ndarray:
    """Decode the value `"0x...` from `start` to `end`."""
    start += len('"0x')
    count = prod(sizes) * kind.dtype.itemsize
    if end - start != 2 * count:
        raise ValueError("not as long as its type")
    data = np.empty(count, np.uint8)
    for at in range(0, count, _PIECE):
        piece = text[start + 2 * at : min(end, start + 2 * (at + _PIECE))]
        data[at : at + _PIECE] = np.frombuffer(binascii.unhexlify(piece), np.uint8)
    return data


def _listed(
    text: bytes, start: int, end: int, kind: ElementType, sizes: Sequence[int]
) -> np.ndarray:
    """Return the numbers of the list from `start` to `end`.

    Its brackets, commas and points are compared with those that the type requires.
    """
    if kind.stablehlo not in _LISTED or end - start < 2 * prod(sizes):
        raise ValueError("not read here")
    wide = np.float64 if kind.is_float else np.int64
    data = np.empty(prod(sizes), kind.dtype)
    structure, filled = [], 0
    while start < end:
        until = end
        if end - start > _PIECE:
            until = text.find(b",", start + _PIECE, end) + 1 or end
        piece = text[start:until]
        structure.append(piece.translate(None, b"0123456789+-eE \t\r\n"))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", DeprecationWarning
            )  # NumPy warns about text that is not a number
            try:
                numbers = np.fromstring(piece.translate(_BLANKS), wide, sep=" , ")
            except DeprecationWarning:
                raise ValueError("no numbers") from None
        # Round to the constant's type.
        with np.errstate(over="ignore", under="ignore"):
            rounded = numbers.astype(kind.dtype)
        if kind.is_integer and not np.array_equal(rounded, numbers):
            raise ValueError("a number that does not fit")
        data[filled : filled + rounded.size] = rounded
        filled += rounded.size
        start = until
    expected = b"." if kind.is_float else b""
    for size in reversed(sizes):
        expected = b"[" + b",".join([expected] * size) + b"]"
    if filled != data.size or b"".join(structure) != expected:
        raise ValueError("not as its type")
    return data
