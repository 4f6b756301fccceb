"""The base class of matrix factorizations, which run as compiled library code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

import minixla_ops as ops
from minixla.core import REGISTRY, Operation, Shape, element_type
from minixla.core.sharding_rule import NEED_REPLICATION
from minixla.typing import Array
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.batch_dimensions import to_front
from minixla_ops.helpers.casting import cast, widened
from minixla_ops.helpers.shorthand import array_shape, as_results, as_tuple
from minixla_ops.linear_algebra.lapack_calls import LETTERS, stack_rule
from minixla_ops.linear_algebra.matrices import nan_unless
from minixla_ops.programs.lowering import kept_program

_T = TypeVar("_T")


def has_elements(operation: Operation, operands: Sequence[Any], target: object) -> bool:
    """Return whether matrices have elements; rules that call a library require it."""
    return all(operand.shape.size for operand in operands)


class Factorization(Operation):
    """Base class of factorizations of stacks of matrices in the last two dimensions.

    XLA lacks these operations, so `minixla.legalize` calls libraries. Other text contains a call of
    `target` with the operation's operands, attributes and results; `target` is XLA's name if it has
    one. Results without elements are constants.

    Besides `shape` and `jvp`, subclasses define:
        target: the name of the call; default: `minixla.` and the operation's name.
        numpy(*arrays): the results in NumPy, for operands in double precision.
    """

    target: ClassVar[str] = ""
    numpy = GIVEN

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.spec_names = ()
        if "target" not in cls.__dict__:
            cls.target = f"minixla.{cls.name}"

    def check_matrices(self, a: Shape, square: bool = False) -> None:
        """Raise ShapeError (C1) unless `a` is a stack of matrices with a supported type."""
        if a.element_type.name not in LETTERS:
            problem = f"the element type must be one of {', '.join(LETTERS)}, not {a.element_type}"
            self.refuse("C1", problem, "Convert with convert_element_type.")
        if a.rank < 2 or (square and a.dimensions[-1] != a.dimensions[-2]):
            what = "a square matrix" if square else "a matrix"
            advice = "The last two dimensions of a must have equal sizes."
            advice = advice if square else "a must have rank 2 or more."
            self.refuse("C1", f"a must be {what} or a stack of matrices", advice)

    def reference(self, *operands):
        kinds = [element_type(operand.dtype) for operand in operands]
        shapes = tuple(map(Shape, kinds, [operand.shape for operand in operands]))
        pairs = zip(operands, kinds, strict=True)
        with np.errstate(all="ignore"):
            found = self.numpy(*[cast(x, widened(kind, in_double=True)) for x, kind in pairs])
        results = zip(as_tuple(found), as_tuple(self.infer(shapes)), strict=True)
        return as_results([np.asarray(x).astype(shape.dtype) for x, shape in results])

    def stablehlo(self, emit, operands, shapes, results):
        if not all(shape.size for shape in shapes):
            return emit.expand(kept_program(self._of_nothing, tuple(shapes)), operands)
        return self._portable(results).stablehlo(emit, operands, shapes, results)

    def hlo(self, emit, operands, shapes, result):
        results = as_tuple(self.infer(tuple(shapes)))
        return self._portable(results).hlo(emit, operands, shapes, result)

    def _portable(self, results: Sequence[Shape]) -> Operation:
        """Return the call of the portable target."""
        version = 4 if self.values else 2
        return REGISTRY["CustomCall"](self.target, tuple(results), self.values, api_version=version)

    def _of_nothing(self, *operands: Array) -> Any:
        arrays = [np.zeros(x.dimensions, x.dtype) for x in map(array_shape, operands)]
        return self.reference(*arrays)

    def batch(self, operands, dimensions):
        results = self(*to_front(operands, dimensions)[0])
        return (results, (0,) * len(results)) if type(results) is tuple else (results, 0)

    def sharding_rule(self, *operands):
        rule, batch = self.sharding_factors(operands), operands[0].rank - 2
        return stack_rule(rule, batch, NEED_REPLICATION)


class ValuesAndVectors(Factorization):
    """Base class of decompositions into values and, if `vectors` is set, vectors."""

    operands = ("a",)
    #: The position of the values among all results; without vectors they are the only result.
    values_at: ClassVar[int] = 0
    #: The attributes with which the jvp rule gets the results that it needs.
    for_jvp: ClassVar[dict[str, bool]] = {"vectors": True}

    @property
    def mode(self) -> str:
        """The option of LAPACK for whether to compute vectors."""
        return "V" if self.values["vectors"] else "N"

    def wanted(self, *every: _T) -> _T | tuple[_T, ...]:
        """Select the entries of the results from those of values and vectors."""
        return every if self.values["vectors"] else every[self.values_at]

    def where_found(self, info: Array, *every: Array) -> Array | tuple[Array, ...]:
        """Return the results, with NaN where the library failed."""
        # cuSOLVER reports success for NaN values, whose vectors are not NaN.
        values, batch = every[self.values_at], array_shape(info).dimensions
        rank = array_shape(values).rank
        first = ops.slice(values, (0,) * rank, (*batch, *[1] * (rank - len(batch))))
        first = ops.reshape(first, batch)
        is_found = (info == 0) & (first == first)
        return self.wanted(*[nan_unless(is_found, array) for array in every])

    @property
    def forward(self):
        # The derivative of the values needs the vectors.
        is_own = self.values["vectors"] or self.no_derivative
        return None if is_own else self._values_and_tangents

    def _values_and_tangents(self, primals: Any, tangents: Any) -> Any:
        at, results = self.values_at, self(*primals, **self.for_jvp)
        return results[at], self.jvp(primals, tangents, results)[at]


def routine(name: str) -> Callable[..., Any]:
    """Return the NumPy implementation of a LAPACK routine."""
    from minixla_ops.linear_algebra.lapack_routines import (
        ROUTINES,
    )  # only the reference rules use it

    return ROUTINES[name]
