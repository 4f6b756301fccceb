"""Arrays by indexing: r_, c_, mgrid, ogrid, s_."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
from minixla.numpy import operands

s_, index_exp = np.s_, np.index_exp


class _Grid:
    """Grids of the numbers that slices say: start:stop:step, or start:stop:1j * count.

    Where `sparse`, the tuple of arrays that broadcast to the grid.
    """

    def __init__(self, name: str) -> None:
        self.__name__, self._grid = name, getattr(np, name)

    def __getitem__(self, key: Any) -> Any:
        found = self._grid[key]
        return tuple(map(mnp.asarray, found)) if isinstance(found, tuple) else mnp.asarray(found)

    def __repr__(self) -> str:
        return f"<minixla.numpy.{self.__name__}>"


mgrid, ogrid = _Grid("mgrid"), _Grid("ogrid")


class _Joined:
    """Arrays, numbers and slices put one after another: `r_[1:4, 0, x]`.

    A text before them says the axis, how many dimensions each has at least, and where its own come
    among them: `r_["0,2,1", x, y]`. "r" and "c" say rows and columns of a matrix.
    """

    def __init__(self, name: str, axis: int, rank: int, place: int) -> None:
        self.__name__, self._form = name, (axis, rank, place)

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, rank, place = self._form
        if items and isinstance(items[0], str):
            axis, rank, place = self._read(items.pop(0))
        parts = [self._member(item, rank, place) for item in items]
        return mnp.concatenate(parts, axis=axis)

    def _read(self, text: str) -> tuple[int, int, int]:
        if text in ("r", "c"):
            return -1, 2, (0 if text == "c" else -1)
        try:
            given = [int(each) for each in text.split(",")]
            axis, rank, place = (*given, *self._form[len(given) :])
        except ValueError:
            advice = 'Give "r", "c", or up to three integers: axis, dimensions, place.'
            raise operands.value_error(self.__name__, f"{text!r} is unknown", advice) from None
        return axis, rank, place

    def _member(self, item: Any, rank: int, place: int) -> Any:
        if isinstance(item, slice):
            start, step = item.start or 0, item.step
            if isinstance(step, complex):
                item = mnp.linspace(start, item.stop, int(abs(step)))
            else:
                item = mnp.arange(start, item.stop, 1 if step is None else step)
        array = mnp.atleast_1d(mnp.asarray(item))
        missing = rank - array.ndim
        if missing <= 0:
            return array
        # The array's own dimensions come at `place` among all, -1 is at their end.
        first = min(place % (missing + 1) if place < 0 else place, missing)
        axes = [at for at in range(rank) if not first <= at < first + array.ndim]
        return mnp.expand_dims(array, tuple(axes))

    def __repr__(self) -> str:
        return f"<minixla.numpy.{self.__name__}>"


r_, c_ = _Joined("r_", 0, 1, -1), _Joined("c_", -1, 2, 0)
