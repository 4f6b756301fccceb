"""Dimension numbers of Gather and Scatter: derived shapes, and dimension numbers of batches."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from minixla.core.attributes import Attribute, Integer, Integers, written_fields
from minixla_ops.helpers.batch_dimensions import shifted

Sizes = Sequence[int]
_T = TypeVar("_T")
Kind = TypeVar("Kind", bound=type)


def _told_apart(kind: Kind) -> Kind:
    """Make objects of the class unequal to objects of other classes."""
    made: Any = kind
    made.__eq__ = lambda self, other: type(self) is type(other) and tuple.__eq__(self, other)
    made.__ne__ = lambda self, other: type(self) is not type(other) or tuple.__ne__(self, other)
    return kind


@_told_apart
class GatherDimensionNumbers(NamedTuple):
    """The relation between the dimensions of Gather's start indices, slices and result.

    Its fields have the same meaning as the fields of ScatterDimensionNumbers:
    `ScatterDimensionNumbers(*numbers)` writes back to where a gather read from.

    Attributes:
        offset_dims: the result's dimensions that index into a slice, ascending.
        collapsed_slice_dims: operand dimensions, of slice size 1, that the result lacks, ascending.
        start_index_map: the operand dimension of each component of an index vector.
        index_vector_dim: the dimension of start_indices that holds the index vectors. If it is the
            rank, an implicit dimension of size 1 at the end holds them.
        operand_batching_dims: operand dimensions that are indexed by the position in a dimension of
            start_indices rather than by its values, ascending.
        start_indices_batching_dims: those dimensions of start_indices, in the same order.
    """

    offset_dims: Sequence[int]
    collapsed_slice_dims: Sequence[int]
    start_index_map: Sequence[int]
    index_vector_dim: int
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


@_told_apart
class ScatterDimensionNumbers(NamedTuple):
    """The relation between the dimensions of Scatter's operands, indices and updates.

    Its fields have the same meaning as the fields of GatherDimensionNumbers:
    `GatherDimensionNumbers(*numbers)` reads from where a scatter writes to.

    Attributes:
        update_window_dims: the updates' dimensions that index into a window, ascending.
        inserted_window_dims: operand dimensions, of window size 1, that updates lack, ascending.
        scatter_dims_to_operand_dims: the operand dimension of each component of an index vector.
        index_vector_dim: the dimension of scatter_indices that holds the index vectors. If it is
            the rank, an implicit dimension of size 1 at the end holds them.
        operand_batching_dims: operand dimensions that are indexed by the position in a dimension of
            scatter_indices rather than by its values, ascending. XLA calls them
            input_batching_dims.
        scatter_indices_batching_dims: those dimensions of scatter_indices, in the same order.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    index_vector_dim: int
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


_Numbers = TypeVar("_Numbers", GatherDimensionNumbers, ScatterDimensionNumbers)
IndexNumbers = GatherDimensionNumbers | ScatterDimensionNumbers


class NumbersAttribute(Attribute):
    """Dimension numbers of Gather or Scatter; their fields are tuples of integers."""

    is_ambiguous = False

    def __init__(self, kind: type[GatherDimensionNumbers] | type[ScatterDimensionNumbers]) -> None:
        self.kind, self.takes, self.description = kind, kind.__name__, f"a {kind.__name__}"
        renamed = {"operand_batching_dims": "input_batching_dims"}
        names = renamed if kind is ScatterDimensionNumbers else {}
        #: XLA's names of the fields.
        self.names = [names.get(name, name) for name in kind._fields]

    def canonical(self, value: object) -> IndexNumbers:
        if not isinstance(value, self.kind):
            raise TypeError(f"must be a {self.kind.__name__}, not {value!r}")
        kinds: dict[str, Attribute] = {
            **dict.fromkeys(value._fields, Integers()),
            "index_vector_dim": Integer(),
        }
        fields: list[Any] = [kinds[n].canonical(field) for n, field in value._asdict().items()]
        return self.kind(*fields)

    def stablehlo(self, value: IndexNumbers) -> str:
        pairs = [pair for pair in zip(self.names, value, strict=True) if pair[1] != ()]
        texts = [
            f"{n} = {list(number) if isinstance(number, tuple) else number}" for n, number in pairs
        ]
        kind = self.kind.__name__.removesuffix("DimensionNumbers").lower()
        return f"#stablehlo.{kind}<{', '.join(texts)}>"

    def read(self, written: str) -> IndexNumbers:
        fields = {"index_vector_dim": 0, **written_fields(written)}
        return self.kind(*[fields.get(name, ()) for name in self.names])

    def hlo(self, value: IndexNumbers) -> dict[str, Any]:
        """Write one attribute for each field, without empty batching dimensions."""
        pairs = zip(self.names, value, strict=True)
        return {n: None if number == () and "batching" in n else number for n, number in pairs}


def without_vectors(items: Sequence[_T], index_vector_dim: int) -> tuple[_T, ...]:
    """Remove the item of the dimension that holds the index vectors."""
    return (*items[:index_vector_dim], *items[index_vector_dim + 1 :])


@lru_cache(maxsize=4096)
def window_dimensions(rank: int, numbers: IndexNumbers) -> tuple[int, ...]:
    """Return the dimensions of an operand of rank `rank` that a window's elements differ in."""
    absent = {*numbers[1], *numbers[4]}
    return tuple([dimension for dimension in range(rank) if dimension not in absent])


def window_sizes(operand: Sizes, updates: Sizes, numbers: IndexNumbers) -> tuple[int, ...]:
    """Return the window size in each dimension of an operand, from operand and update sizes."""
    sizes = [1] * len(operand)
    inner = window_dimensions(len(operand), numbers)
    for dimension, place in zip(inner, numbers[0], strict=True):
        sizes[dimension] = updates[place]
    return tuple(sizes)


def outer_dimensions(rank: int, numbers: IndexNumbers) -> tuple[int, ...]:
    """Return the dimensions of the result, or of the updates, that distinguish windows."""
    return tuple([dimension for dimension in range(rank) if dimension not in numbers[0]])


def interleaved(outer: Iterable[_T], window: Iterable[_T], window_dims: Sizes) -> tuple[_T, ...]:
    """Put `window`'s items at the positions `window_dims`, and `outer`'s items elsewhere."""
    merged = list(outer)
    for dimension, size in zip(window_dims, window, strict=True):  # dimensions ascend
        merged.insert(dimension, size)
    return tuple(merged)


def batched_numbers(
    numbers: _Numbers, ranks: tuple[int, int], dimensions: Sequence[int | None], wanted: int
) -> tuple[_Numbers, int]:
    """Return the numbers over a batch, and the batch dimension of the result or the updates.

    It is close to `wanted`. `ranks` are those of one element's operand, and of its result or
    updates; the operand and the indices are batched at `dimensions`. If only the operand is
    batched, the batch becomes part of the windows; if both are, a pair of batching dimensions.
    """
    (operand_rank, outer_rank), (operand_at, indices_at) = ranks, dimensions
    if indices_at is None:
        assert operand_at is not None
        places: Sequence[int] = numbers[0]
        before = sum(
            dimension < operand_at for dimension in window_dimensions(operand_rank, numbers)
        )
    else:
        places = outer_dimensions(outer_rank, numbers)
        before = indices_at - (numbers.index_vector_dim < indices_at)
    lowest = places[before - 1] + 1 if before else 0
    highest = places[before] if before < len(places) else outer_rank
    outer_at = min(max(wanted, lowest), highest)
    window_dims = shifted(numbers[0], outer_at)
    if indices_at is None:
        window_dims = tuple(sorted((*window_dims, outer_at)))
    fields = *numbers[1:3], numbers[4]
    absent, mapped, own = (shifted(field, operand_at) for field in fields)
    pairs = {*zip(own, shifted(numbers[5], indices_at), strict=True)}
    if operand_at is not None and indices_at is not None:
        pairs.add((operand_at, indices_at))
    batching = tuple(zip(*sorted(pairs), strict=True)) or ((), ())
    (index_vector_dim,) = shifted((numbers.index_vector_dim,), indices_at)
    return type(numbers)(window_dims, absent, mapped, index_vector_dim, *batching), outer_at
