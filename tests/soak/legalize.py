"""A search for programs that XLA:CPU gets wrong: single operations and chains of two.

A case runs a program of one or two operations on small arrays of one element type. Each operand is
a constant or an argument. `mx.jit` is compared with `mx.reference`; where they differ, StableHLO's
interpreter decides. XLA may end the process, so run cases in separate processes.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import minixla as mx
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, Graph
from minixla.core.element_types import ElementType, element_type
from minixla.core.errors import MinixlaError
from minixla.tools.interpreter import run_stablehlo
from minixla.tools.reproducer import write_reproducer
from minixla.tools.worker import OracleError
from minixla.tools.xla_differences import Settings
from tests.soak.pieces import PIECES, Piece

#: XLA:CPU has no floats of 6 bits.
TYPES = [name for name, kind in ELEMENT_TYPES.items() if kind.bits != 6 or kind.is_integer]
# The tolerance of one operation that rounds, in ULP; chains have a larger one.
_ULPS = 64.0
_SIZES = (1, 2, 3, 5, 8)


@dataclass(frozen=True)
class Case:
    """One program; equal numbers of one seed give equal cases.

    Attributes:
        seed, number: which case it is.
        kind: the element type of the operands.
        pieces: the names of one or two operations.
        arrays: the operands; both operations take the first ones that they need.
        constants: for each operand whether it is a constant of the program.
        choices: the seed for attributes that operations draw.
    """

    seed: int
    number: int
    kind: str
    pieces: tuple[str, ...]
    arrays: tuple[np.ndarray, ...]
    constants: tuple[bool, ...]
    choices: int

    def __str__(self) -> str:
        values = [
            f"{'constant' if is_constant else 'argument'} {array.tolist()}"
            for array, is_constant in zip(self.arrays, self.constants, strict=True)
        ]
        chain = ", then ".join(self.pieces)
        return f"{self.seed}/{self.number}: {chain} of {self.kind}, {'; '.join(values)}"

    def program(self, *arguments: Any) -> Any:
        """Return the program as a function of its arguments."""
        given = iter(arguments)
        pairs = zip(self.arrays, self.constants, strict=True)
        values = [ops.constant(array) if flag else next(given) for array, flag in pairs]
        draws = random.Random(self.choices)
        first, *rest = (PIECES[name] for name in self.pieces)
        result = first.apply(draws, values[: first.arity])
        for piece in rest:
            others = [value for value in values[1:] if _alike(value, result)]
            given_to_it = [result, *others, *[result] * piece.arity][: piece.arity]
            shape: Any = mx.core.shape_of(result)
            if not piece.takes(shape.element_type):
                raise LookupError(f"{piece.name} does not take the result")
            result = piece.apply(draws, given_to_it)
        return result

    @property
    def arguments(self) -> list[np.ndarray]:
        """The operands that are arguments."""
        pairs = zip(self.arrays, self.constants, strict=True)
        return [array for array, is_constant in pairs if not is_constant]

    def run(self) -> str | None:
        """Return the disagreement; None if there is none, or if the operands do not fit."""
        with mx.enable_x64(True):
            try:
                graph = mx.make_graph(self.program)(*self.arguments)
                expected = _leaves(mx.reference(self.program)(*self.arguments))
                if self._is_undecided(graph):
                    return None
            except (MinixlaError, ArithmeticError, LookupError, ValueError, TypeError):
                return None
            try:
                found = _leaves(mx.jit(self.program)(*self.arguments))
            except Exception as error:  # XLA may raise anything
                return f"{self}\n  mx.jit raises {type(error).__name__}: {str(error)[:200]}"
        bounds = self._ulps()
        if all(_agree(*pair, bounds) for pair in zip(found, expected, strict=True)):
            return None
        shown = [
            f"  mx.jit gives       {_shown(found)}",
            f"  mx.reference gives {_shown(expected)}",
        ]
        return "\n".join([str(self), *shown, f"  {self._third(graph, found, expected)}"])

    def shrunk(self) -> str:
        """Return a script with the smallest program on which XLA is wrong.

        If another part is wrong, return the disagreement of the case.
        """
        with mx.enable_x64(True), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "wrong.py"
            graph = mx.make_graph(self.program)(*self.arguments)
            programs = {"the case": (graph, self.arguments)}
            try:
                reproducer = write_reproducer(path, str(self), programs, Settings(exact=True))
            except MinixlaError as error:
                return f"{self.run()}\n  {error}"
            return f"{reproducer.explanation}\n\n{path.read_text()}"

    def _ulps(self) -> float:
        """Return the ULP by which results may differ; 0 for exact results."""
        rounding = [PIECES[name] for name in self.pieces if not PIECES[name].is_exact]
        return _ULPS * 4 ** (len(rounding) - 1) if rounding else 0.0

    def _is_undecided(self, graph: Graph) -> bool:
        """Whether an intermediate value is subnormal; XLA:CPU flushes these.

        It computes f8e8m0fnu in f32, where the least number of the type is subnormal.
        """
        if self.kind == "f8e8m0fnu" and self._ulps() and any(map(_has_subnormal, self.arrays)):
            return True
        if len(self.pieces) == 1:
            return False
        first = replace(self, pieces=self.pieces[:1])
        values = _leaves(mx.reference(first.program)(*self.arguments))
        reads_bits = any(word in self.pieces[1] for word in ("bitcast", "total order"))
        # The bits of NaN are unspecified.
        is_open = reads_bits and any(map(_has_nan, values))
        return is_open or any(_has_subnormal(value) for value in values) or not graph.outputs

    def _third(self, graph: Graph, found: Any, expected: Any) -> str:
        try:
            third = run_stablehlo(graph.stablehlo(), self.arguments, timeout=20.0)
        except (OracleError, MinixlaError) as error:
            return f"StableHLO's interpreter: {str(error).splitlines()[0][:100]}"
        bounds = self._ulps()
        agrees = [
            name
            for name, others in (("mx.jit", found), ("mx.reference", expected))
            if all(_agree(np.asarray(a), b, bounds) for a, b in zip(third, others, strict=True))
        ]
        return f"StableHLO's interpreter agrees with {' and '.join(agrees) or 'neither'}"


def cases(seed: int) -> Iterator[Case]:
    """Yield the cases of a seed, numbered from 0, without end."""
    number = 0
    while True:
        yield case_of(seed, number)
        number += 1


def case_of(seed: int, number: int) -> Case:
    """One case."""
    draws = random.Random(f"{seed}/{number}")
    while True:
        kind = draws.choice(TYPES)
        fitting = [name for name, piece in PIECES.items() if piece.takes(ELEMENT_TYPES[kind])]
        # The first operation is exact: a rounding could decide a comparison after it.
        exact = [name for name in fitting if PIECES[name].is_exact]
        chain = (draws.choice(fitting),)
        if exact and draws.random() < 0.7:
            chain = (draws.choice(exact), draws.choice(sorted(PIECES)))
        count = max(PIECES[name].arity for name in chain)
        size = draws.choice(_SIZES)
        arrays = tuple([_array(draws, ELEMENT_TYPES[kind], size) for _ in range(count)])
        constants = tuple([draws.random() < 0.5 for _ in arrays])
        return Case(seed, number, kind, chain, arrays, constants, draws.getrandbits(32))


def _array(draws: random.Random, kind: ElementType, size: int) -> np.ndarray:
    """Draw numbers of an element type, including its limits."""
    if kind.kind == "pred":
        return np.array([draws.random() < 0.5 for _ in range(size)])
    if kind.is_integer:
        least = -(1 << (kind.bits - 1)) if kind.kind == "signed" else 0
        most = least + (1 << kind.bits) - 1
        edges = [least, most, 0, 1, most // 2, least + 1]
        small = [draws.randint(max(least, -9), min(most, 9)) for _ in range(size)]
        numbers = [draws.choice([*edges, *small, draws.randint(least, most)]) for _ in range(size)]
        wide = np.array(numbers, np.int64 if kind.kind == "signed" else np.uint64)
        return wide.astype(kind.dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, 6.0, np.nan, np.inf, -np.inf, 100.0]
    numbers = [draws.choice([*edges, draws.uniform(-4, 4)]) for _ in range(size)]
    with np.errstate(all="ignore"):
        return np.array(numbers).astype(kind.dtype)


def _alike(value: Any, result: Any) -> bool:
    return mx.core.shape_of(value) is mx.core.shape_of(result)


def _leaves(results: Any) -> list[np.ndarray]:
    return list(map(np.asarray, mx.tree.leaves(results)))


def _shown(arrays: list[np.ndarray]) -> str:
    return "; ".join(f"{element_type(x.dtype)}{list(x.shape)} {x.ravel().tolist()}" for x in arrays)


def _parts(array: Any) -> list[np.ndarray]:
    return [array.real, array.imag] if array.dtype.kind == "c" else [array]


def _has_nan(array: np.ndarray) -> bool:
    is_inexact = element_type(array.dtype).is_inexact
    return is_inexact and any(np.isnan(x.astype(np.float64)).any() for x in _parts(array))


def _has_subnormal(array: np.ndarray) -> bool:
    kind = element_type(array.dtype)
    if not kind.is_inexact:
        return False
    least = _least(kind)
    return any(
        bool(((np.abs(x.astype(np.float64)) <= least) & (x != 0)).any()) for x in _parts(array)
    )


def _least(kind: ElementType) -> float:
    """The least normal number."""
    import ml_dtypes

    return float(ml_dtypes.finfo(kind.real.dtype).smallest_normal)


def _agree(found: np.ndarray, expected: np.ndarray, ulps: float) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    kind = element_type(found.dtype)
    if not kind.is_inexact:
        return bool((found == expected).all())
    import ml_dtypes

    limits, least = ml_dtypes.finfo(kind.real.dtype), _least(kind)
    epsilon = float(limits.eps)
    if kind.is_complex:
        ulps *= 16
    size = np.maximum.reduce([np.abs(x.astype(np.float64)) for x in _parts(expected)])
    for left, right in zip(_parts(found), _parts(expected), strict=True):
        a, b = left.astype(np.float64), right.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (a == b) & (np.signbit(a) == np.signbit(b) if ulps == 0 else True)
            near = np.abs(a - b) <= ulps * epsilon * size
            tiny = (np.abs(a) <= 2 * least) & (np.abs(b) <= 2 * least)
        odd = np.isnan(a) & np.isnan(b)
        # Conventions of complex functions differ where a part is not finite.
        is_beyond = ~np.isfinite(size) if kind.is_complex else False
        if not bool((same | near | odd | tiny | is_beyond).all()):
            return False
    return True


__all__ = ["PIECES", "Case", "Piece", "case_of", "cases"]
