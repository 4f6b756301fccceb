"""ConvolutionDimensionNumbers: which dimension of a convolution's arrays plays which role."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from minixla.core.attributes import Attribute, Integer, Integers
from minixla.core.errors import AttributeValueError, explain

_LIST, _NUMBER = Integers(), Integer()


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """Which dimension of the input (lhs), the kernel (rhs) and the output plays which role.

    The fields are those of XLA and StableHLO. Prints as HLO does: `b01f_01io->b01f`, where the
    digit k stands at the k-th spatial dimension.

    Attributes:
        input_batch_dimension: of lhs.
        input_feature_dimension: of lhs.
        input_spatial_dimensions: of lhs, in the order of window_strides and padding.
        kernel_input_feature_dimension: of rhs.
        kernel_output_feature_dimension: of rhs.
        kernel_spatial_dimensions: of rhs, in the same order.
        output_batch_dimension: of the result.
        output_feature_dimension: of the result.
        output_spatial_dimensions: of the result, in the same order.
    """

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value, form = getattr(self, name), _LIST if name.endswith("s") else _NUMBER
            try:
                object.__setattr__(self, name, form.canonical(value))
            except (TypeError, ValueError) as error:
                problem = f"{name} must be {form.description}"
                given = [f"{name} = {value!r}", str(error)]
                raise explain(AttributeValueError, type(self).__name__, problem, given) from None

    @classmethod
    def of(
        cls, lhs: Sequence[int], rhs: Sequence[int], output: Sequence[int]
    ) -> ConvolutionDimensionNumbers:
        """The numbers from JAX's three lists.

        Args:
            lhs: batch, feature and spatial dimensions of lhs.
            rhs: output feature, input feature and spatial dimensions of rhs.
            output: batch, feature and spatial dimensions of the result.
        """
        lists: Any = (lhs, rhs, output)
        data, (outputs, inputs, spatial), result = (
            (first, second, tuple(others)) for first, second, *others in lists
        )
        return cls(*data, inputs, outputs, spatial, *result)

    @classmethod
    def default(cls, rank: int) -> ConvolutionDimensionNumbers:
        """Batch, feature, spatial; output features, input features, spatial; as lhs."""
        order = tuple(range(rank))
        return cls.of(order, order, order)

    @classmethod
    def from_letters(cls, lhs: str, rhs: str, output: str) -> ConvolutionDimensionNumbers:
        """The numbers from JAX's strings, such as `NHWC`, `HWIO`, `NHWC`.

        Raises:
            ValueError: a letter is missing or repeated, or spatial letters differ.
        """
        spatial = [letter for letter in rhs if letter not in "IO"]
        return cls._of_letters((lhs, rhs, output), "NC", "OI", spatial)

    @classmethod
    def from_labels(cls, labels: str) -> ConvolutionDimensionNumbers:
        """The numbers from HLO's `dim_labels`, such as `b01f_01io->b01f`.

        Raises:
            ValueError: it is not in this form.
        """
        match = re.fullmatch(r"(\w+)_(\w+)->(\w+)", labels)
        if match is None:
            raise ValueError(f"must be such as b01f_01io->b01f, not {labels!r}")
        return cls.from_roles(*match.groups())

    @classmethod
    def from_roles(
        cls, lhs: Sequence[str], rhs: Sequence[str], output: Sequence[str]
    ) -> ConvolutionDimensionNumbers:
        """The numbers from what each dimension is: b, f, i, o or a spatial index.

        Raises:
            ValueError: one of these is missing or repeated.
        """
        spatial = [str(index) for index in range(len(rhs) - 2)]
        return cls._of_letters((lhs, rhs, output), "bf", "oi", spatial)

    @classmethod
    def _of_letters(
        cls, texts: Iterable[Sequence[str]], data: str, kernel: str, spatial: Sequence[str]
    ) -> ConvolutionDimensionNumbers:
        letters = zip(texts, (data, kernel, data), strict=True)
        return cls.of(*[_positions(text, [*own, *spatial]) for text, own in letters])

    @property
    def lhs(self) -> tuple[int, ...]:
        """Batch, feature and spatial dimensions of lhs."""
        return (
            self.input_batch_dimension,
            self.input_feature_dimension,
            *self.input_spatial_dimensions,
        )

    @property
    def rhs(self) -> tuple[int, ...]:
        """Output feature, input feature and spatial dimensions of rhs."""
        return (
            self.kernel_output_feature_dimension,
            self.kernel_input_feature_dimension,
            *self.kernel_spatial_dimensions,
        )

    @property
    def output(self) -> tuple[int, ...]:
        """Batch, feature and spatial dimensions of the result."""
        return (
            self.output_batch_dimension,
            self.output_feature_dimension,
            *self.output_spatial_dimensions,
        )

    @property
    def labels(self) -> tuple[list[str], list[str], list[str]]:
        """For each dimension of lhs, rhs and the result its role: b, f, i, o or a spatial index.

        What has none is `?`.
        """
        return (_labels(self.lhs, "bf"), _labels(self.rhs, "oi"), _labels(self.output, "bf"))

    def __str__(self) -> str:
        lhs, rhs, output = map("".join, self.labels)
        return f"{lhs}_{rhs}->{output}"


def _labels(dimensions: Sequence[int], letters: str) -> list[str]:
    roles = [*letters, *map(str, range(len(dimensions) - 2))]
    by_dimension = dict(zip(dimensions, roles, strict=True))
    return [by_dimension.get(dimension, "?") for dimension in range(len(dimensions))]


def _positions(letters: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where each of the wanted letters is; they are all there are."""
    if sorted(letters) != sorted(wanted) or len(set(letters)) != len(letters):
        raise ValueError(f"{letters!r} must have each of the letters {', '.join(wanted)} once")
    return [letters.index(letter) for letter in wanted]


class ConvolutionDimensions(Attribute):
    """ConvolutionDimensionNumbers, JAX's triple of strings or of lists, or HLO's labels."""

    is_ambiguous = False

    description = (
        "ConvolutionDimensionNumbers, three strings such as ('NHWC', 'HWIO', 'NHWC'), "
        "or HLO's labels such as 'b01f_01io->b01f'"
    )

    def canonical(self, value: Any) -> ConvolutionDimensionNumbers:
        """The ConvolutionDimensionNumbers."""
        if isinstance(value, ConvolutionDimensionNumbers):
            return value
        if isinstance(value, str):
            return ConvolutionDimensionNumbers.from_labels(value)
        lhs, rhs, output = value
        if isinstance(lhs, str):
            return ConvolutionDimensionNumbers.from_letters(lhs, rhs, output)
        return ConvolutionDimensionNumbers.of(
            *map(Integers(minimum=0).canonical, (lhs, rhs, output))
        )

    def stablehlo(self, value: ConvolutionDimensionNumbers) -> str:
        """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        lhs, rhs, output = (f"[{', '.join(roles)}]" for roles in value.labels)
        return f"{lhs}x{rhs}->{output}"

    def read(self, written: str) -> ConvolutionDimensionNumbers:
        """The numbers that StableHLO's form says."""
        texts = [each.split(", ") for each in re.findall(r"\[([^]]*)\]", written)]
        return ConvolutionDimensionNumbers.from_roles(*texts)

    def hlo(self, value: ConvolutionDimensionNumbers) -> str:
        """`b01f_01io->b01f`."""
        return str(value)
