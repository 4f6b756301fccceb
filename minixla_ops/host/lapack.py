"""Calls of LAPACK in programs that JAX lowered for CPU, such as `lapack_sgetrf_ffi`."""

import inspect
import re
from collections.abc import Sequence
from itertools import compress
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, REGISTRY, AnyShape, ElementType, Graph, Shape, register
from minixla.core.derived import jvp_graph, vjp_graphs
from minixla.core.errors import TransformError, explain
from minixla.core.linear import add_cotangents, spread
from minixla.core.stablehlo_text import Layouts
from minixla.core.symbolic_zeros import call_vjp_graphs
from minixla.core.tracing import evaluate_graph
from minixla.typing import Array
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.batch_dimensions import to_front
from minixla_ops.helpers.shorthand import array_shape, zeros
from minixla_ops.host.custom_call import REGISTERING, CustomCall, is_registered
from minixla_ops.linear_algebra.lapack_calls import LETTERS, lapack_layout, sharding_hints
from minixla_ops.linear_algebra.lapack_programs import (
    PROGRAMS,
    moved_imaginary_parts,
    schur_tangents,
)
from minixla_ops.linear_algebra.lapack_routines import ROUTINES
from minixla_ops.linear_algebra.matrices import adjoint
from minixla_ops.linear_algebra.matrices import diagonal as matrix_diagonal
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.lowering import kept_program

_TARGET = re.compile(r"lapack_([sdcz])(\w+)_ffi")
_TYPES: dict[str, ElementType] = {letter: ELEMENT_TYPES[name] for name, letter in LETTERS.items()}
# Operands and results. Element types: T is the routine's, R real, C complex, I s32. Letters after
# them are sizes; equal letters are equal sizes. k is min(m, n), and d is n - 1. The signature for
# complex numbers follows after `|` if it differs.
_BY_SIGNATURE = {
    "Tnn -> Tnn Tnn Tn Tn I I | Tnn -> Tnn Tnn Tn I I": "gees",
    "Tnn -> Tn Tn Cnn Cnn I | Tnn -> Tn Cnn Cnn I": "geev",
    "Tnn -> Tnn Td I": "gehrd",
    "Tmn In -> Tmn In Tk": "geqp3",
    "Tmn -> Tmn Tk": "geqrf",
    "Tmn -> Tmn Rk Tmu Tvn I": "gesdd gesvd",
    "Tmn -> Tmn Ik I": "getrf",
    "Tn Tn Tn Tnr -> Tn Tn Tn Tnr I": "gtsv",
    "Tnn -> Tnn Rn I": "heevd syevd",
    "Tnn -> Tnn Rn Rd Td I": "hetrd sytrd",
    "Tmn Tp -> Tmn": "orgqr ungqr",
    "Tqs Tp Tmn -> Tmn": "ormqr unmqr",
}
_SIGNATURES = {name: text for text, names in _BY_SIGNATURE.items() for name in names.split()}


def lapack_routine(target: str) -> tuple[str, str] | None:
    """Return the letter of the element type and the routine's name; None for other targets."""
    match = _TARGET.fullmatch(target)
    return (match[1], match[2]) if match is not None else None


def letters(options: dict[str, object] | None, *names: str) -> str:
    """Return the characters that options of LAPACK encode; empty if one is missing."""
    values = [(options or {}).get(name) for name in names]
    codes = [value[1] if isinstance(value, tuple) else value for value in values]
    is_text = all(isinstance(code, int) and ord("A") <= code <= ord("Z") for code in codes)
    return "".join(map(chr, codes)) if is_text else ""  # type: ignore[arg-type]  # integers


def column_major(target: str, operands: Sequence[AnyShape]) -> tuple[Layouts, ...] | None:
    """Return the layouts of a routine's operands and results; None for unknown routines."""
    signature = _signature(target)
    if signature is None or not operands or not isinstance(operands[0], Shape):
        return None
    batch = operands[0].rank - len(signature[0][0]) + 1
    if batch < 0:
        return None
    return tuple([tuple([lapack_layout(len(x) - 1, batch) for x in side]) for side in signature])


def _signature(target: str) -> tuple[list[str], list[str]] | None:
    letter, name = lapack_routine(target) or ("", "")
    if name not in _SIGNATURES:
        return None
    of_real, _, of_complex = _SIGNATURES[name].partition("|")
    operands, results = ((letter in "cz" and of_complex) or of_real).split("->")
    return operands.split(), results.split()


@register
class LapackCall(CustomCall):
    """Call a routine of LAPACK on stacks of matrices.

    Attributes: see CustomCall.

    Checks:
        (L1) operands and results have the element types and sizes of the routine's signature.
    """

    spec_names = ()
    hlo_name = "custom-call"
    no_derivative = None

    def shape(self, *args):
        name, shapes = self.target_name, self.shapes
        signature, routine = _signature(name), lapack_routine(name)
        assert signature and routine, "importers only create calls of known routines"
        kind = _TYPES[routine[0]]
        fitting = _fits(kind, [*signature[0], *signature[1]], [*args, *shapes])
        if len(args) != len(signature[0]) or not fitting:
            wanted = " -> ".join(map(" ".join, signature))
            problem = f"operands and results must match the signature of {name}: {wanted}"
            advice = "T is the routine's type, R real, C complex, I s32; other letters are sizes."
            self.refuse("L1", problem, advice)
        return shapes

    def reference(self, *args):
        # Compute in f64 and round once; results that LAPACK leaves undefined are zeros.
        target_name = self.target_name
        if is_registered(target_name):
            return super().reference(*args)
        _, name = lapack_routine(target_name) or ("", "")
        function = ROUTINES.get(name)
        if function is None:
            problem = f"LAPACK's routine {name} has no NumPy implementation"
            advice = f"Run it with XLA (mx.jit), or register a function: {REGISTERING}."
            details = [f"target_name = {target_name!r}"]
            raise explain(TransformError, self.builder_name, problem, details, advice)
        options = dict(self.options)
        keywords = {n: v if isinstance(v, bool) else letters(options, n) for n, v in self.options}
        try:
            inspect.signature(function).bind(*args, **keywords)
            for option, declared in get_type_hints(function).items():
                letters_ = get_args(declared) if get_origin(declared) is Literal else ()
                if letters_ and keywords[option] not in letters_:
                    problem = f"{option} is {keywords[option]!r}, not one of {', '.join(letters_)}"
                    raise TypeError(problem)
        except TypeError as error:
            problem = f"the options of {target_name} are invalid: {error}"
            details = [f"attributes: {keywords}"]
            advice = "Pass the options that JAX passes."
            raise explain(TransformError, self.builder_name, problem, details, advice) from None
        double = [a if a.dtype.kind == "i" else a.astype(np.result_type(a, float)) for a in args]
        with np.errstate(all="ignore"):
            found = function(*double, **keywords)
        # Parts are as wide as the operands' parts, which may be f64.
        parts = args[0].real.dtype
        dtypes = {"i": np.int32, "f": parts, "c": np.result_type(parts, np.complex64)}
        results = []
        for array, shape in zip(found, self.array_shapes(self.shapes), strict=True):
            whole = np.zeros(shape.dimensions) if array is None else np.asarray(array)
            results.append(whole.astype(dtypes[shape.dtype.kind]))
        return tuple(results)

    @property
    def routine(self) -> str:
        """The name of the routine, without the letter of the element type."""
        return (lapack_routine(self.target_name) or ("", ""))[1]

    def _program(self, *values: Any) -> Sequence[Any]:
        """Compute the results from operands and results, with differentiable operations."""
        count = len(values) - len(self.shapes)
        options = {n: v for n, v in self.options if isinstance(v, bool)}
        if self.routine in ("sytrd", "hetrd"):
            options = {"lower": letters(dict(self.options), "uplo") == "L"}
        return PROGRAMS[self.routine](values[:count], values[count:], **options)

    def _derived(self, operands: Sequence[Any], results: Sequence[Any]) -> Graph:
        shapes = tuple(map(array_shape, (*operands, *results)))
        return kept_program(self._program, shapes, self.routine)

    def jvp(self, primals, tangents, results):
        if self.routine == "gtsv":
            return None, None, None, self._moved_solution(primals, tangents, results[3]), None
        if self.routine == "geev":
            return self._moved_eigenvectors(primals[0], tangents[0], results)
        if self.routine == "gees":
            return self._moved_schur_form(primals[0], tangents[0], results)
        active = [tangent is not None for tangent in tangents]
        flags = (*active, *[False] * len(results))
        graph, moving = jvp_graph(self._derived(primals, results), flags)
        outputs = evaluate_graph(graph, [*primals, *results, *compress(tangents, active)])
        return tuple(spread(moving, outputs[len(moving) :]))

    @property
    def linearize(self) -> Any:
        """The reverse rule of routines with programs; other routines transpose their jvp."""
        if self.routine == "gtsv":
            return self._transposed_solution
        return self._by_program if self.routine in PROGRAMS else None

    def _by_program(self, operands: Sequence[Any], active: Sequence[bool]) -> Any:
        results = self(*operands)
        graphs = vjp_graphs(self._derived(operands, results), (*active, *[False] * len(results)))
        _, pullback = call_vjp_graphs(graphs, [*operands, *results])
        return results, lambda cotangents: pullback(cotangents)[: len(operands)]

    def _moved_solution(self, primals: Any, tangents: Any, x: Array) -> Array:
        # T x' = b' - T' x
        *matrix, change = tangents
        for diagonal, offset in zip(matrix, (-1, 0, 1), strict=True):
            if diagonal is not None:
                moved = -(over_columns_of(diagonal, x) * shifted(x, offset))
                change = add_cotangents(change, moved)
        return self(*primals[:3], change)[3]

    def _transposed_solution(self, operands: Sequence[Any], active: Sequence[bool]) -> Any:
        results = self(*operands)
        below, diagonal, above, _ = operands
        x, rank = results[3], array_shape(diagonal).rank

        def pullback(cotangents: dict[int, Any]) -> list[Any]:
            if cotangents.get(3) is None:
                return [None] * 4
            turned = shifted(above, -1, rank - 1), diagonal, shifted(below, 1, rank - 1)
            moved = self(*turned, cotangents[3])[3]
            shares = [
                -sum_over(moved * shifted(x, offset), (rank,)) if flag else None
                for offset, flag in zip((-1, 0, 1), active, strict=False)
            ]
            return [*shares, moved if active[3] else None]

        return results, pullback

    def _moved_eigenvectors(self, a: Array, tangent: Array, results: Sequence[Any]) -> Any:
        *parts, left, right, _ = results
        values = parts[0] if len(parts) == 1 else ops.complex(*parts)
        eig, options = REGISTRY["Eig"](vectors=True), dict(self.options)
        of_values: Any = None
        of_left = of_right = None
        if letters(options, "compute_left") == "V":
            turned = eig.jvp([adjoint(a)], [adjoint(tangent)], (conjugate(values), left))
            of_values, of_left = conjugate(turned[0]), turned[1]
        if letters(options, "compute_right") == "V":
            of_values, of_right = eig.jvp([a], [tangent], (values, right))
        of_parts = [of_values] if len(parts) == 1 else [ops.real(of_values), ops.imag(of_values)]
        return *of_parts, of_left, of_right, None

    def _moved_schur_form(self, a: Array, tangent: Array, results: Sequence[Any]) -> Any:
        form, vectors = results[:2]
        options = dict(self.options)
        mode: Any = options.get("mode")
        if letters(options, "mode") != "V":
            options["mode"] = (mode[0], ord("V")) if isinstance(mode, tuple) else ord("V")
            _, vectors, *_ = self(a, options=tuple(options.items()))
        of_form, of_vectors = schur_tangents(tangent, form, vectors)
        values: list[Any] = [matrix_diagonal(of_form)]
        if not array_shape(a).element_type.is_complex:
            values.append(moved_imaginary_parts(of_form, form, results[3]))
        return of_form, of_vectors, *values, None, None

    def hints(self, shapes, results):
        # Describe how a stack may be sharded over devices.
        signature = _signature(self.target_name)
        if signature is None:
            return ""
        arrays = self.array_shapes(shapes)
        batch = arrays[0].rank - len(signature[0][0]) + 1
        return sharding_hints(
            batch, arrays, [result for result in results if isinstance(result, Shape)]
        )

    def batch(self, operands, dimensions):
        fronts, size = to_front(operands, dimensions)
        wider: dict[str, Any] = {
            name: [(*[at + 1 for at in order], 0) for order in orders]
            for name in ("operand_layouts", "result_layouts")
            if (orders := self.values[name]) is not None
        }
        wide = [shape.with_dimension(0, size) for shape in self.array_shapes(self.shapes)]
        results = self(*fronts, shapes=wide, **wider)
        return results, (0,) * len(results)


def _fits(kind: ElementType, pattern: Sequence[str], shapes: Sequence[AnyShape]) -> bool:
    """Return whether shapes match a signature and have the same batch dimensions."""
    if len(pattern) != len(shapes) or kind.name not in LETTERS:
        return False
    kinds = {"T": kind, "R": kind.real, "C": kind.complex, "I": ELEMENT_TYPES["s32"]}
    sizes: dict[str, int] = {}
    batches = set()
    for letters_, shape in zip(pattern, shapes, strict=True):
        rank = len(letters_) - 1
        if not isinstance(shape, Shape) or shape.rank < rank or shape.is_dynamic:
            return False
        dimensions = shape.dimensions[shape.rank - rank :]
        pairs = zip(letters_[1:], dimensions, strict=True)
        is_wrong = shape.element_type is not kinds[letters_[0]]
        if is_wrong or any(sizes.setdefault(name, size) != size for name, size in pairs):
            return False
        batches.add(shape.dimensions[: shape.rank - rank])
    m, n = sizes.get("m", 0), sizes.get("n", 0)
    least = min(m, n)
    sizes_of_letters = {"k": (least,), "d": (max(n - 1, 0),), "u": (m, least), "v": (n, least)}
    is_known = all(
        sizes[name] in allowed for name, allowed in sizes_of_letters.items() if name in sizes
    )
    return (
        is_known
        and len(batches) == 1
        and sizes.get("p", 0) <= min(sizes.get("q", m), sizes.get("s", n))
    )


def shifted(value: Array, offset: int, dimension: int | None = None) -> Array:
    """Shift the rows of matrices: element i becomes i + offset, or 0 if that is missing."""
    shape = array_shape(value)
    at = shape.rank - 2 if dimension is None else dimension
    if not offset or not shape.dimensions[at]:
        return value
    size = shape.dimensions[at]
    sizes = shape.dimensions
    none = zeros(shape.with_dimensions((*sizes[:at], 1, *sizes[at + 1 :])))
    if offset > 0:
        return ops.concat_in_dim([ops.slice_in_dim(value, 1, size, at), none], at)
    return ops.concat_in_dim([none, ops.slice_in_dim(value, 0, size - 1, at)], at)


def over_columns_of(diagonal: Array, like: Array) -> Array:
    """Repeat the element of each row of matrices in all columns."""
    shape = array_shape(like)
    return ops.broadcast_in_dim(diagonal, shape.dimensions, range(shape.rank - 1))


_LAYOUTS = "operand_layouts", "result_layouts"


def with_layouts(call: CustomCall, shapes: Sequence[AnyShape], are_free: bool) -> CustomCall:
    """Apply the declared layouts to a call; LAPACK's layouts make it a LapackCall.

    The default is row-major, or the layouts of the target if `are_free`.
    """
    kind, layouts_given = CustomCall, [call.values[name] for name in _LAYOUTS]
    rows = tuple([tuple(map(_row_major, side)) for side in (shapes, call.shapes)])
    columns = column_major(call.target_name, shapes) if call.api_version == 4 else None
    free = columns if are_free else rows
    layouts = [
        None if layout == row else layout for layout, row in zip(layouts_given, rows, strict=True)
    ]
    if columns and columns == tuple(
        [a or b for a, b in zip(layouts_given, free or rows, strict=True)]
    ):
        kind, layouts = LapackCall, [*columns]
    return kind(**{**call.values, **dict(zip(_LAYOUTS, layouts, strict=True))})


def _row_major(shape: AnyShape) -> tuple[int, ...]:
    return tuple(range(shape.rank))[::-1] if isinstance(shape, Shape) else ()
