"""Applications of operations that show each branch of their sharding rules, and Shardy's registry.

A row is the function and the shapes of its operands; its last instruction is what it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import minixla_ops as ops
from minixla.core.shapes import Shape, parse_shape
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers


class Row(NamedTuple):
    """An application of an operation."""

    function: Callable[..., Any]
    shapes: tuple[str, ...]

    @property
    def operands(self) -> list[Any]:
        """The shapes of the operands."""
        return [parse_shape(each) for each in self.shapes]


def _row(function: Callable[..., Any], *shapes: str) -> Row:
    return Row(function, shapes)


def _each(function: Callable[..., Any], *given: tuple[Any, ...]) -> list[Row]:
    """Rows of one operand, of (its shape, attributes...)."""
    return [
        _row(lambda x, attributes=rest: function(x, *attributes), shape) for shape, *rest in given
    ]


def _words(text: str) -> list[str]:
    return text.split()


_FLOAT_UNARY = "abs cbrt ceil cos exp expm1 floor is_finite log log1p logistic neg round"
_FLOAT_UNARY += " round_nearest_even rsqrt sign sin sqrt tan tanh"
_STABLEHLO = {
    "neg": "negate",
    "clz": "count_leading_zeros",
    "cos": "cosine",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log1p": "log_plus_one",
    "not_": "not",
    "sin": "sine",
    "population_count": "popcnt",
    "round": "round_nearest_afz",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "rem": "remainder",
    "pow": "power",
    "max": "maximum",
    "min": "minimum",
    "and_": "and",
    "or_": "or",
}
_BINARY = "add sub mul div rem pow max min atan2 complex"
_BITS = "and_ or_ xor shift_left shift_right_arithmetic shift_right_logical"


def _elementwise() -> Iterator[tuple[str, list[Row]]]:
    for name in _FLOAT_UNARY.split():
        yield _STABLEHLO.get(name, name), [_row(getattr(ops, name), "f32[4,8]")]
    for name in ("real", "imag"):
        yield name, [_row(getattr(ops, name), "c64[4,8]")]
    for name in ("clz", "not_", "population_count"):
        yield _STABLEHLO.get(name, name), [_row(getattr(ops, name), "s32[4,8]")]
    for names, kind in ((_BINARY, "f32"), (_BITS, "s32")):
        for name in names.split():
            yield _STABLEHLO.get(name, name), [_row(getattr(ops, name), *[f"{kind}[4,1,0]"] * 2)]
    yield "compare", [_row(ops.lt, "f32[]", "f32[]")]
    yield "convert", [_row(lambda x: ops.convert_element_type(x, "s32"), "f32[4,8]")]
    yield "reduce_precision", [_row(lambda x: ops.reduce_precision(x, 5, 3), "f32[4,8]")]
    pairs = ["f32[4,8]"] * 2
    yield "select", [_row(ops.select, kind, *pairs) for kind in ("pred[]", "pred[4,8]")]
    bounds = [("f32[]", "f32[]"), ("f32[4,8]", "f32[]"), ("f32[4,8]", "f32[4,8]")]
    yield "clamp", [_row(ops.clamp, low, "f32[4,8]", high) for low, high in bounds]


_RESHAPES = [
    *[("2,4,32", "8,32"), ("8,4", "2,16"), ("4,6", "6,4"), ("1,4", "4"), ("4", "1,4"), ("1", "1")],
    *[("4,1,6", "4,6"), ("4,1,6", "24"), ("1,1", ""), ("", "1,1"), ("6", "2,3"), ("7,5", "5,7")],
    *[("4,6,1", "1,8,3"), ("0,4", "4,0"), ("0", "0,3"), ("8", "2,1,4"), ("1,8", "8,1")],
    *[("12,5", "4,15"), ("6,10", "15,4"), ("4,1,1", "2,1,2,1"), ("3,4,5", "5,12")],
    *[("9,4,10", "6,60"), ("9,4,10", "6,2,30"), ("4,1,6", "6,1,4"), ("14,30,2", "21,5,4,2")],
    *[("5,12,3", "4,45"), ("3,4,2", "2,3,4"), ("4,6,7", "6,4,7"), ("3,8,10", "2,6,20")],
]


def _movement() -> Iterator[tuple[str, list[Row]]]:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(map(int, filter(None, text.split(","))))

    given = [(f"f32[{old}]", numbers(new)) for old, new in _RESHAPES]
    yield "reshape", _each(ops.reshape, *given)
    given = [("f32[2,3,4]", (2, 0, 1)), ("f32[]", ()), ("f32[0,1]", (1, 0))]
    yield "transpose", _each(ops.transpose, *given)
    yield "reverse", _each(ops.rev, ("f32[4,8]", (1,)), ("f32[1,8]", (0, 1)), ("f32[4]", ()))
    given = [("4,1", "4,8,6", (0, 2)), ("4,1", "1,4", (1, 0)), ("", "3,4", ()), ("1", "1", (0,))]
    given += [("4", "4,0", (0,)), ("1,1", "2,3", (0, 1)), ("6", "6,6", (1,))]
    given += [("1,3", "3,1,5", (1, 0))]
    broadcasts = [(f"f32[{old}]", numbers(new), places) for old, new, places in given]
    yield "broadcast_in_dim", _each(ops.broadcast_in_dim, *broadcasts)
    given = [((0, 2), (4, 4)), ((0, 0), (4, 8), (1, 2)), ((0, 0), (1, 8)), ((0, 0), (0, 8))]
    yield "slice", _each(ops.slice, *[("f32[4,8]", *each) for each in given])
    given = [((0, 0, 0), (1, 2, 0)), ((1, -1, 0), (0, -3, 0)), ((0, 0, 0), (0, 0, 1))]
    yield (
        "pad",
        [_row(lambda x, y, c=each: ops.pad(x, y, c), "f32[4,8]", "f32[]") for each in given],
    )

    def join(dimension: int, *shapes: str) -> Row:
        return _row(lambda *xs: ops.concat_in_dim(xs, dimension), *shapes)

    yield "concatenate", [join(1, "f32[4,8]", "f32[4,2]"), join(1, "f32[4,8]", "f32[4,0]")]
    yield "concatenate", [join(0, "f32[1]", "f32[1]"), join(0, "f32[4]")]
    given = [("f32[4,8]", "u16"), ("u16[4,8,2]", "f32"), ("f32[4,8]", "s32"), ("f32[]", "u16")]
    yield "bitcast_convert", _each(ops.bitcast_convert_type, *given)


def _folds() -> Iterator[tuple[str, list[Row]]]:
    def first(*values: Any) -> Any:
        return list(values[: len(values) // 2])

    def reduced(count: int, shape: str, *dimensions: int) -> Row:
        def function(*values: Any) -> Any:
            halves = values[:count], values[count:]
            return ops.reduce(*halves, ops.add if count == 1 else first, dimensions)

        return _row(function, *[f"f32[{shape}]"] * count, *["f32[]"] * count)

    yield "reduce", [reduced(1, "4,8", 1), reduced(1, "4,8,3", 2, 0), reduced(2, "4,8", 0)]
    yield "reduce", [reduced(1, "4,8"), reduced(1, "0,1", 0), reduced(1, "4,1", 1)]
    none = ((0, 0), (0, 0))
    windows = [
        *[((1, 2), (1, 2), none), ((1, 3), (1, 1), ((0, 0), (1, 1))), ((1, 8), (1, 1), none)],
        *[((1, 1), (2, 1), none), ((1, 1), (1, 1), ((0, 0), (1, 0))), ((2, 2), (2, 2), none)],
        *[((1, 1), (1, 1), none), ((1, 1), (1, 1), none, (1, 2))],
        ((1, 2), (1, 1), none, (1, 1), (1, 2)),
    ]
    yield (
        "reduce_window",
        [
            _row(lambda x, y, w=each: ops.reduce_window(x, y, ops.max, *w), "f32[4,8]", "f32[]")
            for each in windows
        ],
    )

    def both(x, y):
        return ops.reduce_window([x, y], [0.0, 0.0], first, (1, 3), (1, 1), none)

    yield "reduce_window", [_row(both, *["f32[4,8]"] * 2)]
    sources = ["4,4", "4,8", "4,1", "2,8", "4,9", "2,4", "4,8"]

    def selected(window: Any, source: str) -> Row:
        def function(x: Any, y: Any, z: Any) -> Any:
            return ops.select_and_scatter(x, ops.ge, *window, y, z, ops.add)

        return _row(function, "f32[4,8]", f"f32[{source}]", "f32[]")

    pairs = zip(windows[:7], sources, strict=True)
    yield "select_and_scatter", [selected(window, source) for window, source in pairs]


def _indexing() -> Iterator[tuple[str, list[Row]]]:
    starts = ["s32[]"] * 2
    yield (
        "dynamic_slice",
        [
            _row(lambda x, *s, sizes=each: ops.dynamic_slice(x, s, sizes), "f32[4,8]", *starts)
            for each in ((4, 2), (1, 8), (4, 8), (0, 3))
        ],
    )
    yield (
        "dynamic_update_slice",
        [
            _row(lambda x, y, *s: ops.dynamic_update_slice(x, y, s), "f32[4,8]", each, *starts)
            for each in ("f32[4,2]", "f32[1,8]", "f32[4,8]", "f32[1,1]", "f32[0,8]")
        ],
    )

    def ordered(x: Any, y: Any) -> Any:
        return ops.sort([x, y], lambda a, b, c, d: ops.lt(a, b), 0)

    # Of vectors no other dimension can be split.
    for shape in ("f32[4,8]", "f32[8]", "f32[1,8]", "f32[8,1]"):
        yield "sort", [_row(lambda x: ops.sort(x, ops.lt), shape)]
    yield "sort", [_row(ordered, "f32[4,8]", "s32[4,8]")]
    for numbers, sizes, operand, indices in _GATHERS:
        given: Any = GatherDimensionNumbers(*numbers), sizes

        def function(x, i, given=given):
            return ops.gather(x, i, *given)

        yield "gather", [_row(function, f"f32[{operand}]", f"s32[{indices}]")]
    for numbers, operand, indices, updates in _SCATTERS:
        yield "scatter", [_scatter(numbers, ops.add, operand, indices, updates)]
    for computation in (ops.mul, ops.max, ops.min, ops.sub, lambda x, y: y, lambda x, y: y + y):
        yield "scatter", [_scatter(*_SCATTERS[0][:1], computation, *_SCATTERS[0][1:])]
    for kind, names in {"pred": "and_ or_ xor max", "s32": "and_ or_ xor add"}.items():
        for name in names.split():
            rows = [_scatter(*_SCATTERS[0][:1], getattr(ops, name), *_SCATTERS[0][1:], kind=kind)]
            yield "scatter", rows
    for both in (_of_two(ops.add, ops.add), _of_two(ops.add, ops.max), lambda *x: x[:2]):
        yield "scatter", [_scatter(*_SCATTERS[0][:1], both, *_SCATTERS[0][1:], count=2)]


def _of_two(one: Any, other: Any) -> Callable[..., Any]:
    return lambda x, y, z, w: [one(x, z), other(y, w)]


def _scatter(
    numbers: Any,
    computation: Any,
    operand: str,
    indices: str,
    updates: str,
    kind: str = "f32",
    count: int = 1,
) -> Row:
    def function(*values: Any) -> Any:
        split = values[:count], values[count], values[count + 1 :]
        return ops.scatter(*split, computation, ScatterDimensionNumbers(*numbers))

    operands, windows = [f"{kind}[{operand}]"] * count, [f"{kind}[{updates}]"] * count
    return _row(function, *operands, f"s32[{indices}]", *windows)


_GATHERS: list[tuple[Any, ...]] = [
    (((1,), (0,), (0,), 1), (1, 6), "10,6", "4,1"),
    (((1,), (0,), (0,), 1), (1, 6), "10,6", "4"),
    (((1,), (0,), (0,), 1), (1, 3), "10,6", "4,1"),
    (((), (0, 1), (0, 1), 1), (1, 1), "10,6", "4,2"),
    (((1, 2), (), (0, 1), 1), (1, 3), "10,6", "4,2"),
    (((1, 2), (), (0, 1), 1), (10, 3), "10,6", "4,2"),
    (((0,), (0,), (0,), 1), (1, 6), "10,6", "4,1"),
    (((0,), (0,), (0,), 0), (1, 6), "10,6", "1,4"),
    (((2,), (1,), (1,), 2, (0,), (0,)), (1, 1, 6), "3,10,6", "3,4,1"),
    (((2,), (1,), (1,), 2, (0,), (1,)), (1, 1, 5), "3,10,6", "4,3,1"),
    (((), (2,), (2,), 2, (0, 1), (1, 0)), (1, 1, 1), "3,5,10", "5,3,1"),
    (((1,), (0,), (0,), 1), (1, 6), "1,6", "4,1"),
    (((1, 2), (), (0,), 1), (1, 6), "1,6", "4,1"),
    (((0, 1), (), (0, 1), 0), (1, 3), "10,6", "2"),
    (((1,), (0, 2), (2, 0), 1), (1, 6, 1), "10,6,7", "4,2"),
    (((1, 2), (), (), 1), (10, 6), "10,6", "4,0"),
]
_SCATTERS: list[tuple[Any, ...]] = [
    (((1,), (0,), (0,), 1), "10,6", "4,1", "4,6"),
    (((1,), (0,), (0,), 1), "10,6", "4", "4,6"),
    (((1,), (0,), (0,), 1), "10,6", "4,1", "4,3"),
    (((), (0, 1), (0, 1), 1), "10,6", "4,2", "4"),
    (((1, 2), (), (0, 1), 1), "10,6", "4,2", "4,1,3"),
    (((2,), (1,), (1,), 2, (0,), (0,)), "3,10,6", "3,4,1", "3,4,6"),
    (((2,), (1,), (1,), 2, (0,), (1,)), "3,10,6", "4,3,1", "4,3,5"),
    (((0,), (0,), (0,), 0), "10,6", "1", "6"),
    (((0, 1), (), (0, 1), 0), "10,6", "2", "1,3"),
    (((1, 2), (), (0,), 1), "1,6", "4,1", "4,1,6"),
]


def _products() -> Iterator[tuple[str, list[Row]]]:
    dots = [
        *[("2,4,8", "2,8,6", (((2,), (1,)), ((0,), (0,)))), ("4,5", "6,7", (((), ()), ((), ())))],
        *[("4,2,8,3", "8,6,2,5", (((2,), (0,)), ((1,), (2,))))],
        *[("8,4,3", "3,8", (((0, 2), (1, 0)), ((), ()))), ("8", "8", (((0,), (0,)), ((), ())))],
        *[("1,0", "0,1", (((1,), (0,)), ((), ()))), ("", "2", (((), ()), ((), ())))],
        *[("2,3,4", "3,4,2", (((2,), (1,)), ((1, 0), (0, 2))))],
    ]
    for lhs, rhs, numbers in dots:
        function = partial(ops.dot_general, dimension_numbers=numbers)
        yield "dot_general", [_row(function, f"f32[{lhs}]", f"f32[{rhs}]")]
    for lhs, rhs, window in _CONVOLUTIONS:
        yield "convolution", [convolution(lhs, rhs, **window)]


def convolution(lhs: str, rhs: str, labels: Any = None, **window: Any) -> Row:
    """A row of `conv_general_dilated` of f32, with spatial dimensions in the middle."""
    count = lhs.count(",") - 1
    digits = "".join(map(str, range(count)))
    labels = labels or f"b{digits}f_{digits}io->b{digits}f"
    given = {"window_strides": (1,) * count, "padding": ((0, 0),) * count, **window}

    def function(x: Any, y: Any) -> Any:
        return ops.conv_general_dilated(x, y, dimension_numbers=labels, **given)

    return _row(function, f"f32[{lhs}]", f"f32[{rhs}]")


_ONE_AROUND = ((1, 1), (1, 1))
_CONVOLUTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("2,8,8,3", "3,3,3,5", {"padding": _ONE_AROUND}),
    ("2,8,8,3", "3,3,3,5", {}),
    ("2,8,8,3", "3,3,3,5", {"window_strides": (2, 2), "padding": _ONE_AROUND}),
    ("2,8,8,3", "8,1,3,5", {}),
    ("2,8,8,6", "3,3,3,4", {"feature_group_count": 2}),
    ("2,8,8,6", "3,3,1,12", {"feature_group_count": 6}),
    ("2,8,8,6", "3,3,1,6", {"feature_group_count": 6}),
    ("4,8,8,3", "3,3,3,6", {"batch_group_count": 2}),
    ("6,8,8,3", "3,3,3,6", {"batch_group_count": 6}),
    ("4,8,8,1", "3,3,1,2", {"batch_group_count": 2}),
    ("2,3", "3,5", {}),
    ("3,2,8", "5,3,3", {"labels": "fb0_oi0->0bf"}),
    ("2,8,8,1", "3,3,1,1", {}),
    ("1,1,1,16", "1,1,16,16", {}),
    ("0,8,8,3", "3,3,3,0", {}),
    *[("2,8,3", f"{kernel},3,5", {"window_strides": (2,)}) for kernel in (1, 2, 4, 5, 8)],
    ("2,9,3", "3,3,5", {"window_strides": (3,)}),
    ("2,8,3", "3,3,5", {"lhs_dilation": (2,), "padding": ((2, 2),)}),
    ("2,8,3", "3,3,5", {"rhs_dilation": (2,), "padding": ((2, 2),)}),
]


def _others() -> Iterator[tuple[str, list[Row]]]:
    lengths = [
        ("c64[4,8]", "FFT", (8,)),
        ("f32[4,8]", "RFFT", (8,)),
        ("c64[2,4,5]", "IRFFT", (4, 8)),
    ]
    yield (
        "fft",
        _each(ops.fft, *lengths, ("f32[2]", "RFFT", (2,)), ("c64[2,2,2]", "IFFT", (2,) * 3)),
    )
    yield "cholesky", _each(ops.cholesky, ("f32[2,3,4,4]",), ("f32[4,4]",))

    def solving(left: bool, transpose: str) -> Row:
        sizes = "2,4,6" if left else "2,6,4"

        def function(a, b):
            return ops.triangular_solve(a, b, left, True, False, transpose)

        return _row(function, "f32[2,4,4]", f"f32[{sizes}]")

    ways = [(left, way) for left in (True, False) for way in ("NO_TRANSPOSE", "TRANSPOSE")]
    yield "triangular_solve", [solving(*each) for each in [*ways, (True, "ADJOINT")]]

    def draw(state):
        return ops.rng_bit_generator("rng_philox", state, Shape("u32", (4, 8)))

    yield "rng_bit_generator", [_row(draw, "u64[2]"), _row(draw, "u64[3]")]
    groups = ((0, 1),)
    yield "all_gather", _each(ops.all_gather, *[("f32[4,8]", at, 2, groups) for at in (0, 1)])
    given = [("f32[4,6,8]", 2, 0, 2, groups), ("f32[4,8]", 1, 1, 2, groups)]
    yield "all_to_all", _each(ops.all_to_all, *given)
    yield "all_reduce", _each(ops.all_reduce, ("f32[4,8]", ops.add, groups))
    yield "reduce_scatter", _each(ops.reduce_scatter, ("f32[4,8]", ops.add, 1, 2, groups))
    yield "collective_permute", _each(ops.collective_permute, ("f32[4,8]", ((0, 1),)))
    yield "collective_broadcast", _each(ops.collective_broadcast, ("f32[4,8]", groups))


_SCALARS = ["f32[]", "f32[]"]
_CALLS: dict[str, list[tuple[list[str], list[str]]]] = {
    "Eigh": [
        (["f32[2,3,4,4]"], ["f32[2,3,4,4]", "f32[2,3,4]"]),
        (["f32[4,4]"], ["f32[4,4]", "f32[4]"]),
        (["f32[1,1,1]"], ["f32[1,1,1]", "f32[1,1]"]),
    ],
    "Qr": [(["f32[3,5,4]"], ["f32[3,5,4]", "f32[3,4]"]), (["f32[4,5]"], ["f32[4,5]", "f32[4]"])],
    "QrDecompositionBlock": [
        (["f32[3,4,5]"], ["f32[3,4,5]", "f32[3,4]"]),
        (["f32[1,1]"], ["f32[1,1]", "f32[1]"]),
    ],
    "ProductOfElementaryHouseholderReflectors": [
        (["f32[3,5,4]", "f32[3,2]"], ["f32[3,5,4]"]),
        (["f32[1,1]", "f32[1]"], ["f32[1,1]"]),
    ],
    "mhlo.topk": [
        *[(["f32[4,8]"], ["f32[4,2]", "s32[4,2]"]), (["f32[8]"], ["f32[8]", "s32[8]"])],
        *[(["f32[8]"], ["f32[2]", "s32[2]"]), (["f32[1,8]"], ["f32[1,1]", "s32[1,1]"])],
    ],
    "ApproxTopK": [
        (["f32[4,8]", "s32[4,8]", *_SCALARS], ["f32[4,2]", "s32[4,2]"]),
        (["f32[8]", "s32[8]", *_SCALARS], ["f32[1]", "s32[1]"]),
    ],
    "PartialReduce": [(["f32[4,8,3]", "s32[4,8,3]", *_SCALARS], ["f32[4,5,3]", "s32[4,5,3]"])],
    "CompactWyHelper": [(["f32[3,4,4]", "f32[3,4]"], ["f32[3,4,4]"])],
    "X64Combine": [(["u32[4,8]", "u32[4,8]"], ["u64[4,8]"])],
    "LayoutConstraint": [(["f32[4,8]", "f32[]"], ["f32[4,8]", "f32[4]"])],
}
_PLAIN_CALLS = (
    *("Cholesky", "InspectSharding", "InvertDiagBlocksLowerTriangular", "X64SplitHigh"),
    *("InvertDiagBlocksUpperTriangular", "MoveToDevice", "MoveToHost", "X64SplitLow", "mhlo.erf"),
    *("annotate_device_placement", "xla.megascale.provide_metadata", "_SPMDInternalOp_MultiPad"),
    *("_SPMDInternalOp_MultiRotate", "_SPMDInternalOp_MultiSlice", "_SPMDInternalOp_RotateRight"),
)
#: Targets of which the registry knows that they have no rule, and one that it does not know.
WITHOUT_RULE = (
    *("tpu_custom_call", "xla_python_cpu_callback", "xla_python_gpu_callback", "sdy_testonly"),
    *("xla_ffi_python_cpu_callback", "xla_ffi_python_gpu_callback", "unheard_of"),
)


def _calls() -> Iterator[tuple[str, list[Row]]]:
    def calling(target: str, operands: list[str], results: list[str]) -> Row:
        shapes = [parse_shape(each) for each in results]
        return _row(lambda *xs: ops.custom_call(target, xs, shapes), *operands)

    plain = [(["f32[4,8]"], ["f32[4,8]"])]
    for target in (*_CALLS, *_PLAIN_CALLS, *WITHOUT_RULE):
        yield target, [calling(target, *each) for each in _CALLS.get(target, plain)]


def rows() -> dict[str, list[Row]]:
    """Rows by StableHLO's name of the operation, or by the target of a custom call."""
    found: dict[str, list[Row]] = {}
    families = _elementwise, _movement, _folds, _indexing, _products, _others, _calls
    for family in families:
        for name, listed in family():
            found.setdefault(name, []).extend(listed)
    return found


#: What only a program's text can hold: the types of the operands, and what comes of them.
TEXTS = {
    "dot": """(tensor<4x8xf32>, tensor<8x6xf32>) stablehlo.dot %a0, %a1
        : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>""",
    "cross-replica-sum": """(tensor<4x8xf32>) "stablehlo.cross-replica-sum"(%a0)
        {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<4x8xf32>) -> tensor<4x8xf32>""",
    "batch_norm_inference": """(tensor<2x3x4xf32>, tensor<3xf32>)
        "stablehlo.batch_norm_inference"(%a0, %a1, %a1, %a1, %a1)
        {epsilon = 0.1 : f32, feature_index = 1 : i64}
        : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
        -> tensor<2x3x4xf32>""",
    "sharding_constraint": """(tensor<4x8xf32>) sdy.sharding_constraint %a0 <@mesh, [{"p"}, {}]>
        : tensor<4x8xf32>""",
}


def program(text: str) -> str:
    """The module of an entry of TEXTS."""
    operands, _, operation = text[1:].partition(")")
    named = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(operands.split(", ")))
    result = operation.split()[-1]
    return f"""sdy.mesh @mesh = <["p"=2]>
func.func public @main({named}) -> {result} {{
  %0 = {operation.strip()}
  return %0 : {result}
}}"""


#: What has a rule in the registry: operations, and targets of custom calls.
REGISTRY = {
    *_words(
        """abs add all_gather all_reduce all_to_all and atan2 batch_norm_inference bitcast_convert
        broadcast_in_dim cbrt ceil cholesky clamp collective_broadcast collective_permute compare
        complex concatenate convert convolution cosine count_leading_zeros cross-replica-sum divide
        dot dot_general dynamic_slice dynamic_update_slice exponential exponential_minus_one fft
        floor gather imag is_finite log log_plus_one logistic maximum minimum multiply negate not or
        pad popcnt power real reduce reduce_precision reduce_scatter reduce_window remainder reshape
        reverse rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select
        select_and_scatter sharding_constraint shift_left shift_right_arithmetic
        shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose triangular_solve
        xor"""
    ),
    *_CALLS,
    *_PLAIN_CALLS,
}
