"""ConvolutionDimensionNumbers: the roles of the dimensions of a convolution's arrays."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from minixla.core.attributes import Attribute, Integer, Integers
from minixla.core.errors import AttributeValueError, explain

_LIST, _NUMBER = Integers(), Integer()
Dimensions = Sequence[int]
Letters = Sequence[str]


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """The roles of the dimensions of the input (lhs), the kernel (rhs) and the output.

    The fields are those of XLA and StableHLO, for lhs (`input_...`), rhs (`kernel_...`) and the
    result (`output_...`). Spatial dimensions are in the order of window_strides and padding.
    Prints as in HLO: `b01f_01io->b01f`, where the digit k marks the k-th spatial dimension.
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
                details = [f"{name} = {value!r}", str(error)]
                raise explain(AttributeValueError, type(self).__name__, problem, details) from None

    @classmethod
    def of(cls, lhs: Dimensions, rhs: Dimensions, output: Dimensions) -> Self:
        """Build the numbers from JAX's three lists, the values of `lhs`, `rhs` and `output`."""
        lists: Any = (lhs, rhs, output)
        data, (outputs, inputs, spatial), result = (
            (first, second, tuple(others)) for first, second, *others in lists
        )
        return cls(*data, inputs, outputs, spatial, *result)

    @classmethod
    def from_letters(cls, lhs: Letters, rhs: Letters, output: Letters) -> Self:
        """Parse JAX's `NHWC`, `HWIO`, `NHWC`, or HLO's `b01f`, `01io`, `b01f`.

        Raises:
            ValueError: a letter is missing or repeated, or spatial letters differ.
        """
        if "I" in rhs or "O" in rhs:
            data, kernel, spatial = "NC", "OI", [letter for letter in rhs if letter not in "IO"]
        else:
            data, kernel, spatial = "bf", "oi", [str(index) for index in range(len(rhs) - 2)]
        pairs = (lhs, data), (rhs, kernel), (output, data)
        return cls.of(*[_positions(text, [*labels, *spatial]) for text, labels in pairs])

    @property
    def lhs(self) -> tuple[int, ...]:
        """Batch, feature and spatial dimensions of lhs."""
        spatial = self.input_spatial_dimensions
        return self.input_batch_dimension, self.input_feature_dimension, *spatial

    @property
    def rhs(self) -> tuple[int, ...]:
        """Output feature, input feature and spatial dimensions of rhs."""
        spatial = self.kernel_spatial_dimensions
        return self.kernel_output_feature_dimension, self.kernel_input_feature_dimension, *spatial

    @property
    def output(self) -> tuple[int, ...]:
        """Batch, feature and spatial dimensions of the result."""
        spatial = self.output_spatial_dimensions
        return self.output_batch_dimension, self.output_feature_dimension, *spatial

    @property
    def labels(self) -> tuple[list[str], list[str], list[str]]:
        """The role of each dimension of lhs, rhs and output: b, f, i, o, a spatial index, or ?."""
        return _labels(self.lhs, "bf"), _labels(self.rhs, "oi"), _labels(self.output, "bf")

    def __str__(self) -> str:
        lhs, rhs, output = map("".join, self.labels)
        return f"{lhs}_{rhs}->{output}"


def _labels(dimensions: Dimensions, letters: str) -> list[str]:
    roles = [*letters, *map(str, range(len(dimensions) - 2))]
    by_dimension = dict(zip(dimensions, roles, strict=True))
    return [by_dimension.get(dimension, "?") for dimension in range(len(dimensions))]


def _positions(letters: Letters, wanted: Letters) -> list[int]:
    """Return the positions of the wanted letters, which must be all letters."""
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
        if isinstance(value, ConvolutionDimensionNumbers):
            return value
        if isinstance(value, str):
            match = re.fullmatch(r"(\w+)_(\w+)->(\w+)", value)
            if match is None:
                raise ValueError(f"must look like b01f_01io->b01f, not {value!r}")
            return ConvolutionDimensionNumbers.from_letters(*match.groups())
        lhs, rhs, output = value
        if isinstance(lhs, str):
            return ConvolutionDimensionNumbers.from_letters(lhs, rhs, output)
        lists = map(Integers(minimum=0).canonical, (lhs, rhs, output))
        return ConvolutionDimensionNumbers.of(*lists)

    def stablehlo(self, value: ConvolutionDimensionNumbers) -> str:
        """Return `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        lhs, rhs, output = (f"[{', '.join(roles)}]" for roles in value.labels)
        return f"{lhs}x{rhs}->{output}"

    def read(self, written: str) -> ConvolutionDimensionNumbers:
        texts = [part.split(", ") for part in re.findall(r"\[([^]]*)\]", written)]
        return ConvolutionDimensionNumbers.from_letters(*texts)

    def hlo(self, value: ConvolutionDimensionNumbers) -> str:
        return str(value)
