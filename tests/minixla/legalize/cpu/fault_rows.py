"""Programs that XLA:CPU computes wrongly: for each rule several element types and directions."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minixla as mx
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES
from tests.minixla.legalize.cpu.fault_programs import (
    argmax,
    array,
    bits_of,
    chain,
    clamped,
    count,
    full,
    gathered,
    narrowed,
    of_constants,
    scattered,
    sliced,
    tables,
    updated,
    windows,
    with_number,
)

SIGNED = ("s2", "s4", "s8", "s16", "s32", "s64")
UNSIGNED = ("u2", "u4", "u8", "u16", "u32", "u64")


class Row(NamedTuple):
    """A program; with `dies` XLA ends the process or does not compile it."""

    rule: str
    name: str
    program: Callable[..., Any]
    arguments: tuple[np.ndarray, ...] = ()
    dies: bool = False


def _rows() -> list[Row]:
    rows: list[Row] = []

    def row(rule: str, name: str, program: Any, *arguments: Any, dies: bool = False) -> None:
        rows.append(Row(rule, name, program, arguments, dies))

    def constants(rule: str, name: str, function: Any, *arrays: Any, dies: bool = False) -> None:
        row(rule, f"{name} of constants", of_constants(function, *arrays), dies=dies)

    for kind in SIGNED[:-1]:
        constants("leading_zeros", f"clz {kind}", ops.clz, array([-1, 1, 0, -2], kind))
    constants("bits_of_two", "popcnt s2", ops.population_count, array([-1, -2, 0, 1], "s2"))
    for kind in ("s2", "u2", "s4", "u4"):
        for source in ("u8", "s16", "s32", "u64", "f32", "bf16"):
            numbers = (
                array([163, 31, 7, 99], source) if source[0] != "s" else array([-93, 3], source)
            )
            read = partial(ops.bitcast_convert_type, new_element_type=kind)
            constants("bits_of_narrow_types", f"bitcast {source} to {kind}", read, numbers)

    left, right = np.array([True, True, False]), np.array([True, False, False])
    constants("sum_of_booleans", "pred + pred", ops.add, left, right)
    row(
        "clamped_booleans",
        "clamp(false, false, true)",
        lambda: ops.clamp(*map(ops.constant, right[[1, 1, 0]])),
    )

    for kind in ("s4", "u4"):
        for name in ("add", "mul", "neg", "shift_left"):
            numbers = tables(kind)[: 1 if name == "neg" else 2]
            row("widened_results", f"{name} {kind} to 8 bits", bits_of(name, kind), *numbers)
    for relation in ("eq", "ne", "max"):
        against = with_number(relation, -1)
        row("signs_of_two_bits", f"{relation} s2 and -1", against, array([-2, -1, 0, 1], "s2"))
    for relation in ("gt", "ge"):
        against = with_number(relation, -2)
        row("signs_of_two_bits", f"{relation} s2 and -2", against, array([-2, -1, 0, 1], "s2"))
    bounds = array(-1, "s2"), array(1, "s2")
    row("signs_of_two_bits", "clamp s2", clamped(*bounds), array([-2, -1, 0, 1], "s2"))
    for kind in ("s2", "s4"):
        shift = with_number("shift_right_logical", -1, is_first=True)
        row(
            "shifts_of_narrow_types",
            f"-1 >> {kind}",
            shift,
            array([0, 1, 2, 3], kind) if kind == "s4" else array([0, 1], kind),
        )

    odd = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 2.5])
    for kind in ("f32", "f64", "f16", "bf16", "f8e4m3", "f8e3m4"):
        for direction in ("LT", "LE", "GT", "GE"):
            compare = partial(ops.compare, direction=direction, total_order=True)
            constants(
                "total_order",
                f"total {direction} {kind}",
                compare,
                array(odd, kind),
                array(np.roll(odd, 3), kind),
            )
    for kind in ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"):
        constants("sign_of_zero", f"sign(-0) {kind}", ops.sign, array([-0.0, -1], kind))
    for kind in ("f16", "bf16", "f32", "f64", "f8e4m3", "c64"):
        constants("constants_like_iota", f"{kind} constant", lambda x: x, -array([0, -1, -2], kind))
    subnormal = np.arange(1, 20) * 2.0**-24
    constants(
        "reduced_subnormals",
        "reduce_precision f16",
        partial(ops.reduce_precision, exponent_bits=5, mantissa_bits=10),
        array(subnormal, "f16"),
    )
    constants(
        "reduced_subnormals",
        "reduce_precision f8e5m2fnuz",
        partial(ops.reduce_precision, exponent_bits=5, mantissa_bits=2),
        array(np.arange(1, 4) * 2.0**-17, "f8e5m2fnuz"),
    )
    for name in ("round_nearest_even", "round_nearest_afz"):
        constants("rounded_f8e3m4", name, getattr(ops, name), array([1, 1.5, -2.5], "f8e3m4"))
    for name in ("neg", "round_nearest_even", "sub"):
        constants(
            "formats_without_infinity",
            f"{name} f8e8m0fnu",
            getattr(ops, name),
            *[array([1, 2, 0.5, np.nan], "f8e8m0fnu")] * (1 + (name == "sub")),
        )
    for source, kind in (
        ("f32", "f4e2m1fn"),
        ("bf16", "f8e8m0fnu"),
        ("f8e8m0fnu", "f32"),
    ):
        is_source = source == "f8e8m0fnu"
        rule = "formats_without_infinity" if is_source else "conversions_without_infinity"
        numbers = array([0, 1, -2.5, np.nan, np.inf], source)
        constants(
            rule,
            f"{source} to {kind}",
            partial(ops.convert_element_type, new_element_type=kind),
            numbers,
        )
    for kind in ("s4", "u4", "s8", "u8", "s16", "s32", "u32", "s64", "u64"):
        row(
            "f4_as_integer",
            f"f4e2m1fn to {kind}",
            partial(ops.convert_element_type, new_element_type=kind),
            array([6, -6, 1.5, 0], "f4e2m1fn"),
        )

    for kind in ("s8", "s16", "s32", "s64", "u8", "u32", "u64"):
        for name in ("div", "rem"):
            dies = kind in ("s32", "u64")
            if dies:
                constants(
                    "integer_division_by_zero",
                    f"{name} {kind} by 0",
                    getattr(ops, name),
                    array([5, 7], kind),
                    array([0, 2], kind),
                    dies=True,
                )
    for kind, large in (("f32", 2e38), ("f64", 1.5e308), ("bf16", 2.0**127)):
        divide = with_number("div", large)
        row(
            "division_by_large_constants",
            f"{kind} by {large}",
            divide,
            array([large, large / 2], kind),
        )
    tiny = np.float32([1e30, 1e-30, 1])
    row(
        "quotient_of_quotients",
        "x / y / z",
        lambda x: ops.div(ops.div(x, x), x),
        np.float32([1e30]),
    )
    row("quotient_of_quotients", "x / (y / z)", lambda x: ops.div(x, ops.div(x, x)), tiny)

    for kind in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        row(
            "integer_power",
            f"{kind} to above 63",
            ops.pow,
            array([2, 2, 6], kind),
            array([64, 66, 100], kind),
        )
    for kind in ("c64", "c128"):
        roots = array([complex(-2, -0.0), complex(-np.inf, -0.0), complex(-1, 0), 3 - 4j], kind)
        row("complex_roots", f"sqrt {kind}", ops.sqrt, roots)
    row("integer_power", "u8 to above 127", ops.pow, array([3, 5], "u8"), array([200, 129], "u8"))
    for kind in SIGNED:
        constants(
            "integer_power",
            f"(-1) ** -1 {kind}",
            ops.pow,
            array([-1, 1, -2], kind),
            array([-1, -2, -1], kind),
        )
    for kind, numbers in (
        ("s8", [12, 15, -12]),
        ("s16", [200, 181]),
        ("s32", [46341, 50001]),
        ("s64", [3037000500]),
    ):
        values = array(numbers, kind)
        row("overflown_squares", f"abs(x * x) {kind}", lambda x: ops.abs(ops.mul(x, x)), values)
        row(
            "overflown_squares",
            f"x * x < 0 {kind}",
            lambda x: ops.lt(ops.mul(x, x), full(x, 0)),
            values,
        )
        row(
            "overflown_squares",
            f"x * x / 2 {kind}",
            lambda x: ops.div(ops.mul(x, x), full(x, 2)),
            values,
        )
    values = array([15, 7], "s8")
    row("overflown_squares", "x * x % 2", lambda x: ops.rem(ops.mul(x, x), full(x, 2)), values)
    row(
        "overflown_squares",
        "abs(pow(x, 2))",
        lambda x: ops.abs(ops.pow(x, full(x, 2))),
        array([12], "s8"),
    )
    row(
        "overflown_squares",
        "abs(reversed x * x)",
        lambda x: ops.abs(ops.reshape(ops.mul(x, x), (2, 1))),
        array([12, 20], "s8"),
    )
    row(
        "overflown_squares",
        "abs(x) / 2",
        lambda x: ops.div(ops.abs(x), full(x, 2)),
        array([-128, 3], "s8"),
    )
    square = mx.jit(lambda x: ops.mul(x, x))
    row(
        "overflown_squares",
        "abs of a called square",
        lambda x: ops.abs(square(x)),
        array([12], "s8"),
    )
    row(
        "overflown_squares",
        "called abs of a called square",
        lambda x: mx.jit(ops.abs)(square(x)),
        array([12], "s8"),
    )
    row(
        "overflown_squares",
        "called abs of a square",
        lambda x: mx.jit(ops.abs)(ops.mul(x, x)),
        array([12], "s8"),
    )

    for source, kind in (("s32", "s16"), ("s64", "s32"), ("s16", "s8"), ("s32", "s8")):
        for fold in ("sum", "max", "cumsum"):
            if (source, fold) in (("s32", "sum"), ("s64", "cumsum"), ("s16", "max")):
                row(
                    "narrowed_integers",
                    f"{source} to {kind}, {fold}",
                    narrowed(kind, fold),
                    array([8, 3, -6, 3, 7, 1], source),
                    dies=True,
                )

    for kind in ("s8", "u8", "s16", "u16", "s32", "u32"):
        most = 2 ** (ELEMENT_TYPES[kind].bits - 1) - 1
        convolve = partial(ops.conv_general_dilated, window_strides=(1,), padding="VALID")
        constants(
            "integer_convolution",
            f"{kind} convolution",
            convolve,
            array([[[most, 5, 7]]], kind),
            array([[[3, 6]]], kind),
        )

    for kind in ("u32", "u64"):
        row("unsigned_starts", f"dynamic_slice {kind}", sliced(kind), np.arange(7))
    constants("unsigned_starts", "dynamic_update_slice u64", updated("u64"), np.arange(7))
    constants("unsigned_starts", "gather u64", gathered, np.arange(7), array([2**64 - 1], "u64"))

    for factor, name in ((2.0**-100, "small"), (2.0**100, "large")):
        other = 2.0**60 if factor > 1 else 2.0**-60
        values = np.float32([2.0**-60 if factor > 1 else 2.0**60])
        twice = chain(("mul", factor), ("mul", other))
        row("joined_factors", f"two {name} factors", twice, values)
        by = chain(("mul", factor), ("div", 1 / other))
        row("joined_factors", f"{name} factor and divisor", by, values)
    double = chain(("mul", 2.0**-800), ("mul", 2.0**-600))
    row("joined_factors", "two small factors f64", double, np.array([2.0**900]))
    half = mx.jit(lambda x: ops.mul(x, full(x, 2.0**-80)))
    row("joined_factors", "factors of two calls", lambda x: half(half(x)), np.float32([2.0**80]))
    for first, second in (("add", "sub"), ("sub", "add")):
        cancel = chain((first, 1e8), (second, 1e8))
        row("joined_terms", f"{first}, then {second}", cancel, np.float32([1, 3]))
    row(
        "joined_terms",
        "add, then add",
        lambda x: ops.add(ops.add(x, full(x, 1e8)), full(x, -1e8)),
        np.float32([1]),
    )
    row(
        "joined_terms",
        "f64",
        lambda x: ops.sub(ops.add(x, full(x, 1e17)), full(x, 1e17)),
        np.array([1.0]),
    )

    zero = np.int32(0)
    for kind in (np.int32, np.int8, np.int64):
        for start, limit, step, by in (
            (0, 1, 2, "LT"),
            (-2, 1, 2, "LT"),
            (5, 4, 2, "LT"),
            (1, 0, 8, "LE"),
        ):
            row(
                "counted_loops",
                f"{kind.__name__} {start} {by} {limit} += {step}",
                count(kind, start, limit, step, by),
                zero,
            )
    row("unsigned_counters", "u64 down", count(np.uint64, 5, 0, 1, "GT", ops.sub), zero, dies=True)

    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    row("windows_of_negative_padding", "low", windows(((-1, 0), (0, 0))), value, dies=True)
    row("windows_of_negative_padding", "high", windows(((0, -1), (0, 0))), value, dies=True)
    for kind in ("s2", "u2"):
        row(
            "several_reductions_of_two_bits",
            f"argmax {kind}",
            argmax(kind),
            array([0, 1, 1, 0], kind),
            dies=True,
        )
    row(
        "scatters_into_one_array",
        "one array twice",
        scattered(lambda x: x),
        np.float32([0, 1, 2, 3]),
    )
    row(
        "scatters_into_one_array",
        "equal sums",
        scattered(lambda x: x + 0 * x),
        np.int32([0, 1, 2, 3]),
    )
    row("bits_of_four", "popcnt s4", ops.population_count, array([-1, -2, 0, 5], "s4"))
    real = partial(ops.convert_element_type, new_element_type="f32")
    constants("real_parts", "c64 to f32", real, np.complex64(1 + 2j), dies=True)
    for kind in ("s2", "u2"):
        joined = partial(_joined, dimension=0)
        two = array([0, 1, 1], kind)
        row("joined_arrays_of_two_bits", f"concatenate {kind}", joined, two, two, dies=True)
    for kind, wide in (("f4e2m1fn", "f32"), ("s2", "s2"), ("u4", "s32")):
        swap = array([[0, 1], [1, 0]], kind)
        dot = partial(ops.dot, preferred_element_type=wide)
        row("products_of_narrow_types", f"dot {kind}", dot, swap, swap, dies=True)
    for kind in ("f32", "f64"):
        for name, start in (("max", -np.inf), ("min", np.inf)):
            fold = partial(_extreme, getattr(ops, name), start)
            numbers = array(np.where(np.arange(8192) % 4096 == 5, np.nan, 1), kind)
            row("extremes_with_nan", f"{name} {kind}", fold, numbers.reshape(2, 4096))
            row("extremes_with_nan", f"{name} {kind} of columns", fold, numbers.reshape(4096, 2).T)
    for kind in ("s2", "u2"):
        row("sorts_of_short_types", f"sort {kind}", _sorted, array([0, 1, 1, 0, 1], kind))
    matrix = np.float32([[4, 1], [1, 3]])
    row("lu_by_lapack", "lu", ops.lu, matrix, dies=True)
    for rule, function in (
        ("svd_by_lapack", partial(ops.svd, vectors=False)),
        ("eigh_by_lapack", partial(ops.eigh, vectors=False)),
        ("eig_by_lapack", partial(ops.eig, vectors=False)),
        ("schur_by_lapack", partial(ops.schur, vectors=False)),
    ):
        row(
            rule,
            "values",
            function,
            matrix,
            dies=True,
        )
    return rows


def _joined(*arrays: Any, dimension: int) -> Any:
    return ops.concat_in_dim(arrays, dimension)


def _extreme(function: Any, start: float, x: Any) -> Any:
    return ops.reduce(x, np.asarray(start).astype(x.dtype), function, [1])


def _sorted(x: Any) -> Any:
    return ops.sort(x, ops.lt)


ROWS = _rows()
