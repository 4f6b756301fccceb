"""Results of commands for people: short descriptions, rows of numbers, files, pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minixla.core import Shape, element_type
from minixla.core.tables import shown_number
from minixla.tools.command_line import BadInput

# Arrays with more elements are described, and printed in part.
_DESCRIBED, _SHOWN = 8, 400
_WIDE = {"float": "f8", "signed": "i8", "unsigned": "u8"}
#: The numbers of channels of a picture, and Pillow's names of the modes.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def widened(array: np.ndarray) -> np.ndarray:
    """Return the array in NumPy's widest type of its kind, which holds all its numbers."""
    kind = element_type(array.dtype).kind
    return array.astype(_WIDE.get(kind, array.dtype))


def in_short(array: np.ndarray) -> str:
    """Describe an array of more than a few elements in a few words; return "" for others."""
    if array.size <= _DESCRIBED:
        return ""
    if array.dtype == bool:
        return f" {np.count_nonzero(array):,} of {array.size:,} true"
    values: Any = widened(array).ravel()
    what = ""
    if np.iscomplexobj(values):
        with np.errstate(all="ignore"):
            values, what = np.abs(values), "magnitudes "
    finite = values[np.isfinite(values)]
    odd = {"NaN": np.isnan(values), "inf": values == np.inf, "-inf": values == -np.inf}
    counts = {name: np.count_nonzero(mask) for name, mask in odd.items()}
    counts["0"] = np.count_nonzero(values == 0)
    words = [f"{count:,} of {array.size:,} {name}" for name, count in counts.items() if count]
    if finite.size:
        ends = float(finite.min()), float(finite.max())
        # Divide first, because the sum of the largest numbers is infinite.
        with np.errstate(all="ignore"):
            mean = float(np.clip(np.sum(finite / finite.size), *ends))
        least, greatest, middle = map(shown_number, (*ends, mean))
        words.insert(0, f"{what}from {least} to {greatest}, mean {middle}")
    return f" {'; '.join(words)}"


def in_full(array: np.ndarray, width: int | None = None) -> str:
    """Return the numbers of an array; of a large array, those at the edges."""
    columns: Any = {} if width is None else {"max_line_width": max(width - 1, 20)}
    return np.array2string(array, threshold=_SHOWN, **columns)


#: The endings of files for results.
_FORMS = (".npy", ".npz", ".csv", ".png")


def check_file(name: str, shapes: Sequence[Any]) -> None:
    """Raise BadInput if a file cannot hold results of these shapes, before they are computed."""
    form = _form(name)
    if form not in _FORMS:
        raise BadInput(f"{name}: files for results end in {', '.join(_FORMS)}")
    if form != ".npz" and len(shapes) != 1:
        raise BadInput(f"{name} holds one array, and there are {len(shapes)}: use a .npz file")
    if form == ".csv":
        is_table = isinstance(shapes[0], Shape) and shapes[0].rank <= 2
        if not is_table or shapes[0].element_type.is_complex:
            rule = "a table has at most two dimensions, and no complex numbers"
            raise BadInput(f"{name}: {rule}, and the result is {shapes[0]}: use .npy")
    if form == ".png":
        sizes = shapes[0].dimensions if isinstance(shapes[0], Shape) else ()
        is_picture = len(sizes) == 2 or (len(sizes) == 3 and sizes[2] in _MODES)
        if not is_picture or 0 in sizes or shapes[0].element_type.is_complex:
            rule = "[height, width], or with 1, 3 or 4 channels last, and not empty or complex"
            raise BadInput(f"{name}: a picture is {rule}, and the result is {shapes[0]}: use .npy")
        _pillow(name)


def write_file(name: str, results: Mapping[str, np.ndarray]) -> None:
    """Write results: one to .npy, to .csv as a table or to .png as a picture; all to .npz."""
    form, listed = _form(name), list(results.values())
    with open(name, "wb") as file:
        if form == ".npy":
            np.save(file, listed[0])
        elif form == ".csv":
            file.write(_table(listed[0]).encode())
        elif form == ".png":
            _picture(listed[0], _pillow(name)).save(file, "PNG")
        else:
            arrays: dict[str, Any] = dict(results)
            np.savez(file, **arrays)


def _table(array: np.ndarray) -> str:
    """Return comma-separated numbers that read back exactly: rows of a matrix, or one per line."""
    rows = array.reshape(-1, 1) if array.ndim < 2 else array
    exact = str if array.dtype.kind in "biu" else lambda number: repr(float(number))
    return "".join([",".join(map(exact, row)) + "\n" for row in rows])


def _form(name: str) -> str:
    return Path(name).suffix.lower()


def _pillow(name: str) -> Any:
    try:
        from PIL import Image  # an extra
    except ImportError:
        advice = "pip install pillow, or use a .npy file"
        raise BadInput(
            f"{name}: pictures are written by Pillow, which is missing: {advice}"
        ) from None
    return Image


def _picture(array: Any, image: Any) -> Any:
    """Return a picture: bytes stay, other numbers are scaled from the minimum, black, to white.

    NaN is black, and infinities are the ends of the scale.
    """
    if array.dtype != np.uint8:
        values = widened(array).astype("f8")
        finite = values[np.isfinite(values)]
        least, greatest = (finite.min() / 2, finite.max() / 2) if finite.size else (0.0, 0.0)
        with np.errstate(all="ignore"):
            scaled = (np.clip(values / 2, least, greatest) - least) / (greatest - least or 1.0)
        array = np.nan_to_num(np.rint(scaled * 255), nan=0).astype(np.uint8)
    if array.ndim == 2:
        return image.fromarray(array)
    channels = array.shape[2]
    return image.fromarray(array[:, :, 0] if channels == 1 else array, _MODES[channels])
