"""The base class of matrix factorisations, which run as compiled code of libraries."""

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
    """Whether matrices have elements, as rules that call a library ask."""
    return all(operand.shape.size for operand in operands)


class Factorization(Operation):
    """Base class: of stacks of matrices of f32, f64, c64 or c128, in the two last dimensions.

    XLA has no such operations: `minixla.legalize` calls libraries. In other texts they are a call
    of the code `target` with the operation's own operands, attributes and results, which is XLA's
    name for it where it has one. Results without elements are constants.

    Members give, besides `shape` and `jvp`:
        target: the name of such a call; default: the operation's with `minixla.` in front.
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
        """Raises ShapeError (C1) unless `a` is a stack of matrices of the element types."""
        if a.element_type.name not in LETTERS:
            problem = f"{a.element_type} is not one of {', '.join(LETTERS)}"
            self.refuse("C1", problem, "Convert with convert_element_type.")
        if a.rank < 2 or (square and a.dimensions[-1] != a.dimensions[-2]):
            what = "a square matrix" if square else "a matrix"
            advice = "The last two dimensions of a must be equal in size."
            advice = advice if square else "Matrices have two dimensions, stacks of them more."
            self.refuse("C1", f"a is not {what}, or a stack of such", advice)

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
        """The call of the code that has its name."""
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
    """Base class: of values of a matrix and, with the attribute `vectors`, vectors to them."""

    operands = ("a",)
    #: Which one of all results are the values, which are alone without vectors.
    values_at: ClassVar[int] = 0
    #: The attributes with which the jvp rule has the results that it needs.
    for_jvp: ClassVar[dict[str, bool]] = {"vectors": True}

    @property
    def mode(self) -> str:
        """Whether vectors are wanted, as LAPACK is told."""
        return "V" if self.values["vectors"] else "N"

    def wanted(self, *every: _T) -> _T | tuple[_T, ...]:
        """What there is for the results, of what there is for values and vectors."""
        return every if self.values["vectors"] else every[self.values_at]

    def where_found(self, info: Array, *every: Array) -> Array | tuple[Array, ...]:
        """The results, NaN where the library found none."""
        # cuSOLVER is content with values that are NaN, and vectors are numbers then.
        values, batch = every[self.values_at], array_shape(info).dimensions
        rank = array_shape(values).rank
        first = ops.slice(values, (0,) * rank, (*batch, *[1] * (rank - len(batch))))
        first = ops.reshape(first, batch)
        is_found = (info == 0) & (first == first)
        return self.wanted(*[nan_unless(is_found, array) for array in every])

    @property
    def forward(self):
        # The derivative of values alone needs the vectors.
        is_own = self.values["vectors"] or self.no_derivative
        return None if is_own else self._values_and_tangents

    def _values_and_tangents(self, primals: Any, tangents: Any) -> Any:
        at, results = self.values_at, self(*primals, **self.for_jvp)
        return results[at], self.jvp(primals, tangents, results)[at]


def routine(name: str) -> Callable[..., Any]:
    """Return the function of NumPy arrays that computes what a routine of LAPACK does."""
    from minixla_ops.linear_algebra.lapack_routines import ROUTINES  # the reference rules use it

    return ROUTINES[name]
