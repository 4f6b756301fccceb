"""HLO that XLA:CPU does not print: other backends' layouts, asynchronous pairs, older notations."""

from __future__ import annotations

import itertools
import math
import re

import ml_dtypes
import numpy as np
import pytest
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
from tests.oracles import run_xla

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([[4, -1, 2], [0.5, 3, -2]], np.float32)
ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"


def module(body, computations=ADD):
    """A module whose entry has the instructions of `body`."""
    return f"HloModule test\n\n{computations}ENTRY main {{\n{body}\n}}\n"


def evaluated(text, *arguments):
    return mx.reference(mx.import_hlo(text))(*arguments)


def same(actual, expected):
    actual = actual if isinstance(actual, tuple) else (actual,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(actual, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        wide = np.complex128 if np.asarray(one).dtype.kind == "c" else np.float64
        np.testing.assert_array_equal(np.asarray(one, wide), np.asarray(other, wide))


# Instructions of x: f32[2,3] and y: f32[2,3], the last one the result; and the same in NumPy.
BODIES = {
    "copy-start": (
        """s = (f32[2,3]{1,0:S(1)}, f32[2,3]{1,0}, u32[]{:S(2)}) copy-start(x),
               cross_program_prefetch_index=0
           ROOT d = f32[2,3]{1,0:S(1)} copy-done(s)""",
        lambda x, y: x,
    ),
    "copy-start of a tuple": (
        """t = (f32[2,3], f32[2,3]) tuple(x, y)
           s = ((f32[2,3], f32[2,3]), (f32[2,3], f32[2,3]), u32[]) copy-start(t)
           d = (f32[2,3], f32[2,3]) copy-done(s)
           ROOT g = f32[2,3] get-tuple-element(d), index=1""",
        lambda x, y: y,
    ),
    "async-start": (
        """s = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) async-start(x, y), calls=sum,
               async_execution_thread="sparsecore"
           u = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) async-update(s), calls=sum
           ROOT d = f32[2,3] async-done(u), calls=sum""",
        lambda x, y: x + y,
    ),
    "async-start of several results": (
        """s = ((f32[2,3], f32[2,3]), (f32[2,3], f32[2,3])) async-start(x, y), calls=both
           u = ((f32[2,3], f32[2,3]), (f32[2,3], f32[2,3])) async-update(s)
           d = (f32[2,3], f32[2,3]) async-done(u)
           e = f32[2,3] get-tuple-element(d), index=0
           f = f32[2,3] get-tuple-element(d), index=1
           ROOT r = f32[2,3] subtract(e, f)""",
        lambda x, y: (x + y) - (x * y),
    ),
    "slice-start": (
        """s = ((f32[2,3]), f32[1,2], s32[]) slice-start(x), slice={[1:2], [0:3:2]}
           u = ((f32[2,3]), f32[1,2], s32[]) slice-update(s)
           ROOT d = f32[1,2] slice-done(u)""",
        lambda x, y: x[1:2, ::2],
    ),
    "dynamic-slice-start": (
        """i = s32[] constant(1)
           s = ((f32[2,3], s32[], s32[]), f32[1,2]) dynamic-slice-start(x, i, i),
               dynamic_slice_sizes={1,2}
           ROOT d = f32[1,2] dynamic-slice-done(s)""",
        lambda x, y: x[1:2, 1:],
    ),
    "call-start": (
        """s = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) call-start(x, y), to_apply=sum
           ROOT d = f32[2,3] call-done(s)""",
        lambda x, y: x + y,
    ),
    "domain": (
        """d = f32[2,3] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={}}
           ROOT r = f32[2,3] add(d, y)""",
        lambda x, y: x + y,
    ),
    "add-dependency": (
        """t = token[] after-all()
           u = token[] after-all(t, t)
           a = f32[2,3] add-dependency(x, u)
           ROOT r = f32[2,3] subtract(a, y), control-predecessors={%t, %u}""",
        lambda x, y: x - y,
    ),
    "fusion": (
        """f = (f32[2,3]{1,0:T(8,128)}, f32[2,3]{1,0:T(8,128)}) fusion(x, y), kind=kOutput,
               calls=both, output_to_operand_aliasing={{0}: (0, {})},
               backend_config={"flag_configs":[],"scoped_memory_configs":[],"x":"a}{\\"b"}
           ROOT r = f32[2,3] get-tuple-element(f), index=1""",
        lambda x, y: x * y,
    ),
    "opt-barrier": (
        """t = (f32[2,3], (f32[2,3])) tuple(x, (f32[2,3]) u)
           b = (f32[2,3], (f32[2,3])) opt-barrier(t)
           c = (f32[2,3]) get-tuple-element(b), index=1
           ROOT r = f32[2,3] get-tuple-element(c), index=0""",
        lambda x, y: y,
    ),
    "operands with shapes": (
        "ROOT %r.1 = f32[2,3]{1,0} add(f32[2,3]{1,0} %x, /*index=1*/f32[2,3]{1,0:T(8,128)} %y)",
        lambda x, y: x + y,
    ),
    "starts in a vector": (
        """i = s32[2] constant({0, 1})
           s = f32[2,2] dynamic-slice(x, i), dynamic_slice_sizes={2,2}
           ROOT r = f32[2,3] dynamic-update-slice(y, s, i)""",
        lambda x, y: np.concatenate([y[:, :1], x[:, 1:]], 1),
    ),
    "conditional of a predicate": (
        """p = pred[] constant(false)
           t = (f32[2,3], f32[2,3]) tuple(x, y)
           ROOT r = f32[2,3] conditional(p, t, x), true_computation=pair,
               false_computation=single""",
        lambda x, y: x + x,
    ),
    "conditional of an index": (
        """p = s32[] constant(7)
           t = (f32[2,3], f32[2,3]) tuple(y, x)
           ROOT r = f32[2,3] conditional(p, x, y, t), branch_computations={single,
               %single, pair}""",
        lambda x, y: y - x,
    ),
    "while of one value": (
        """ROOT w = f32[2,3] while(x), condition=%small, body=%single""",
        lambda x, y: x * 32,
    ),
    "map": (
        "ROOT m = f32[2,3] map(x, y), dimensions={0,1}, to_apply=add",
        lambda x, y: x + y,
    ),
    "topk": (
        """k = (f32[2,2], s32[2,2]) topk(y), k=2, largest=false
           ROOT r = s32[2,2] get-tuple-element(k), index=1""",
        lambda x, y: np.array([[1, 2], [2, 0]], np.int32),
    ),
    "erf and others": (
        """a = f32[2,3] tan(x), result_accuracy={mode=highest}
           b = f32[2,3] erf(a), result_accuracy={tolerance={atol=0, rtol=0.1, ulps=2}}
           c = f32[2,3] sinh(x)
           d = f32[2,3] is-finite(b)
           ROOT r = f32[2,3] subtract(c, c)""".replace("f32[2,3] is-finite", "pred[2,3] is-finite"),
        lambda x, y: x * 0,
    ),
    "round": (
        """a = f32[2,3] round-nearest-afz(y)
           b = f32[2,3] round-nearest-even(y)
           ROOT r = f32[2,3] subtract(a, b)""",
        lambda x, y: np.where(y == 0.5, np.float32(1), np.float32(0)),
    ),
    "reverse and pad": (
        """r = f32[2,3] reverse(x), dimensions={1}
           z = f32[] constant(-inf)
           ROOT p = f32[3,4] pad(r, z), padding=1_0x-1_0_1""",
        lambda x, y: np.array(
            [[-np.inf] * 4, [-np.inf, 1, -np.inf, 0], [-np.inf, 4, -np.inf, 3]], np.float32
        ),
    ),
    "reduce-window": (
        """z = f32[] constant(0)
           ROOT r = f32[2,2] reduce-window(x, z), window={size=1x2 pad=0_0x0_1 stride=1x2},
               to_apply=add""",
        lambda x, y: np.array([[1, 2], [7, 5]], np.float32),
    ),
    "ragged-dot": (
        """t = f32[3,2] transpose(y), dimensions={1,0}
           g = s32[1] constant({2})
           w = f32[1,3,2] reshape(t)
           ROOT r = f32[2,2] ragged-dot(x, w, g), lhs_contracting_dims={1},
               rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}""",
        lambda x, y: x @ y.T,
    ),
    "scan": (
        """z = f32[3] constant({0, 0, 0})
           s = (f32[2,3], f32[3]) scan(x, z), dimensions={0}, num_carries=1, to_apply=running
           ROOT r = f32[2,3] get-tuple-element(s), index=0""",
        lambda x, y: np.cumsum(x, 0, np.float32),
    ),
    "a sharding that makes no difference": (
        """s = f32[2,3] custom-call(x), custom_call_target="Sharding", sharding={replicated}
           ROOT r = f32[2,3] add(s, s), sharding={replicated},
               metadata={op_type="a" op_name="b" source_file="/x \\"y\\".py" source_line=7}""",
        lambda x, y: x + x,
    ),
    "a reduced precision": (
        "ROOT r = f32[2,3] reduce-precision(y), exponent_bits=8, mantissa_bits=7",
        lambda x, y: y.astype(ml_dtypes.bfloat16).astype(np.float32),
    ),
}  # fmt: skip
MORE = (
    ADD
    + """
sum {
  a = f32[2,3] parameter(0)
  b = f32[2,3] parameter(1)
  ROOT c = f32[2,3] add(a, b)
}, execution_thread="sparsecore"

both {
  b = f32[2,3] parameter(1)
  a = f32[2,3] parameter(0)
  c = f32[2,3] add(a, b)
  d = f32[2,3] multiply(a, b)
  ROOT e = (f32[2,3], f32[2,3]) tuple(c, d)
}

single {
  a = f32[2,3] parameter(0)
  ROOT c = f32[2,3] add(a, a)
}

pair {
  a = (f32[2,3], f32[2,3]) parameter(0)
  b = f32[2,3] get-tuple-element(a), index=0
  c = f32[2,3] get-tuple-element(a), index=1
  ROOT d = f32[2,3] subtract(b, c)
}

%small (a: f32[2,3]) -> pred[] {
  %a = f32[2,3]{1,0} parameter(0)
  %z = f32[]{:T(256)} constant(0)
  %s = f32[] reduce(%a, %z), dimensions={0,1}, to_apply=%add
  %h = f32[] constant(300)
  ROOT %c = pred[] compare(%s, %h), direction=LT, type=FLOAT
}

running {
  a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  c = f32[3] add(a, b)
  ROOT d = (f32[3], f32[3]) tuple(c, c)
}

"""
)


@pytest.mark.parametrize("name", BODIES)
def test_instructions(name):
    body, wanted = BODIES[name]
    tuple_ = "u = (f32[2,3]) tuple(y)\n" if name == "opt-barrier" else ""
    parameters = f"y = f32[2,3] parameter(1)\nx = f32[2,3] parameter(0)\n{tuple_}"
    same(evaluated(module(parameters + body, MORE), X, Y), wanted(X, Y))


# Instructions of x, y: f32[2,3], n: s32[2,3], p: pred[2,3], c: c64[2,3], m: f32[3,3], z: f32[], i:
# s32[] and t: token[], which no test above has; of functions of one operand the opcodes.
FUNCTIONS = """abs acos acosh asin asinh atanh cbrt ceil cosh cosine erf exponential
exponential-minus-one floor log log-plus-one logistic negate round-nearest-afz round-nearest-even
rsqrt sign sine sinh sqrt tan tanh copy"""
PAIRS = "add atan2 divide maximum minimum multiply power remainder subtract"
BITS = "and or shift-left shift-right-arithmetic shift-right-logical xor"
OTHERS = """r = f32[2,3] broadcast(z), dimensions={}
r = f32[] call(z, z), to_apply=second
r = s32[2,3] iota(), iota_dimension=1
r = f32[1,2] slice(x), slice={[1:2], [0:3:2]}
r = s32[2,3] not(n)
r = s32[2,3] popcnt(n)
r = s32[2,3] count-leading-zeros(n)
r = f32[2,3] real(c)
r = f32[2,3] imag(c)
r = c64[2,3] complex(x, y)
r = pred[2,3] is-finite(x)
r = f32[2,3] select(p, x, y)
r = f32[2,3] clamp(z, x, z)
r = s32[2,3] bitcast-convert(x)
r = f32[3,3] cholesky(m), lower=true
r = f32[3,3] triangular-solve(m, m), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
r = c64[2,3] fft(c), fft_type=FFT, fft_length={3}
r = f32[3,2,3] dot(x, m), lhs_contracting_dims={}, rhs_contracting_dims={}, lhs_batch_dims={1},
    rhs_batch_dims={0}
r = f32[2,3] convolution(x, m), dim_labels=bf_io->bf
r = f32[2,2] gather(x, i), offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0},
    index_vector_dim=0, slice_sizes={2,2}
r = f32[2,3] scatter(x, i, z), update_window_dims={}, inserted_window_dims={0,1},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=second
r = f32[2,3] select-and-scatter(x, y, z), window={size=1x1}, select=less, scatter=add
r = s32[2,3] sort(n), dimensions={1}, to_apply=below
r = (f32[2,3], f32[3], f32[3]) batch-norm-training(x, v, v), epsilon=0.1, feature_index=1
r = f32[2,3] batch-norm-inference(x, v, v, v, v), epsilon=0.1, feature_index=1
r = (f32[2,3], f32[3], f32[3]) batch-norm-grad(x, v, v, v, y), epsilon=0.1, feature_index=1
r = f32[2,3] rng(z, z), distribution=rng_uniform
r = (u64[2], u32[4]) rng-bit-generator(k), algorithm=rng_three_fry
r = u64[2] rng-get-and-update-state(), delta=2
r = f32[<=2,3] dynamic-reshape(x, i, i)
r = f32[4,3] ragged-all-to-all(u, u, e, e, e, e), replica_groups={{0}}
r = f32[2,2] scaled-dot(x, x, x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
r = f32[2,3] all-gather(x), replica_groups={{0}}, dimensions={0}
r = f32[2,3] collective-permute(x), source_target_pairs={{0,0}}
r = (f32[2,3], u32[], token[]) send(x, t), channel_id=1
    q = token[] send-done(r), channel_id=1
r = (f32[2], u32[], token[]) recv(t), channel_id=1
    q = (f32[2], token[]) recv-done(r), channel_id=1"""
GIVEN = """x = f32[2,3] parameter(0)
y = f32[2,3] parameter(1)
n = s32[2,3] parameter(2)
p = pred[2,3] parameter(3)
c = c64[2,3] parameter(4)
m = f32[3,3] parameter(5)
z = f32[] parameter(6)
i = s32[] parameter(7)
t = token[] parameter(8)
v = f32[3] parameter(9)
k = u64[2] parameter(10)
u = f32[4,3] parameter(11)
e = s32[1] parameter(12)
"""
COMPUTATIONS = """second {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}

below {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

"""
ROWS = [
    *[f"r = f32[2,3] {each}(x)" for each in FUNCTIONS.split()],
    *[f"r = f32[2,3] {each}(x, y)" for each in PAIRS.split()],
    *[f"r = s32[2,3] {each}(n, n)" for each in BITS.split()],
    *re.split(r"\n(?! )", OTHERS),
]
# Each opcode that jaxlib's enumeration names otherwise than texts do.
RENAMED = {
    "Clz": "count-leading-zeros",
    "Cos": "cosine",
    "Exp": "exponential",
    "Expm1": "exponential-minus-one",
    "Log1p": "log-plus-one",
    "OptimizationBarrier": "opt-barrier",
    "PopulationCount": "popcnt",
    "Sin": "sine",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("(")[0].split()[-1])
def test_an_instruction_of_each_opcode(row):
    text = module(f"{GIVEN}{row}", ADD + COMPUTATIONS)
    graph = mx.import_hlo(text).graph
    assert mx.import_hlo(str(graph)).graph == graph


def opcodes(text):
    return set(re.findall(r"(?<=[\]})] )([a-z][\w-]*)\(", text))


def test_every_opcode_of_xla_is_read():
    """Each is in a text of these tests, which are all imported."""
    text = " ".join([*ROWS, *[body for body, _ in (*BODIES.values(), *PROCESSES.values())]])
    known = opcodes(text)
    # Of these there are tests of their own.
    known |= {"constant", "bitcast", "mulhi", "outfeed", "set-dimension-size", "infeed"}
    known |= {"stochastic-convert", "get-dimension-size", "custom-call"}
    known |= opcodes(MORE)
    words = {each.replace("-", "") for each in known}
    missing = [
        name[1:]
        for name in _hlo.HloOpcode.__members__
        if RENAMED.get(name[1:]) not in known and name[1:].lower() not in words
    ]
    assert not missing


def read_back(text):
    """The StableHLO of HLO text, by XLA."""
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))


FLOATS = np.array(
    [1.25, -1.25, 1.75, 0.5, -0.5, 300, np.nan, -np.inf, 127.6, -128.5, 126.9, -3], np.float32
)
CHANCES = np.array(
    [2**30 - 1, 2**30 - 1, 3 * 2**30, 2**31 - 1, 2**31, 0, 0, 0, 0, 0, 0, 5], np.uint32
)
OUTSIDE = {
    "stochastic-convert": (
        "x = f32[12] parameter(0)\ny = u32[12] parameter(1)\n"
        "ROOT r = s8[12] stochastic-convert(x, y)",
        (FLOATS, CHANCES),
    ),
    "stochastic-convert of f16": (
        "x = f16[12] parameter(0)\ny = u16[12] parameter(1)\n"
        "ROOT r = s8[12] stochastic-convert(x, y)",
        (FLOATS.astype(np.float16), (CHANCES >> 16).astype(np.uint16)),
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_only_xla_has(name):
    """XLA:CPU gives the same bits."""
    body, arguments = OUTSIDE[name]
    text = f"HloModule test\n\nENTRY main {{\n{body}\n}}\n"
    same(evaluated(text, *arguments), tuple(run_xla(read_back(text), arguments)))


def test_mulhi():
    x, y = np.int32([2**31 - 1, 7, -(2**31)]), np.int32([5, -9, -(2**31)])
    text = "x = s32[3] parameter(0)\ny = s32[3] parameter(1)\nROOT r = s32[3] mulhi(x, y)"
    same(evaluated(module(text), x, y), (x.astype(np.int64) * y >> 32).astype(np.int32))
    text, x = text.replace("s32", "u32"), x.view(np.uint32)
    wanted = (x.astype(np.uint64) * x >> np.uint64(32)).astype(np.uint32)
    same(evaluated(module(text), x, x), wanted)


# Constants.

CONSTANTS = {
    "scalar": ("f32[] constant(1.5)", np.float32(1.5)),
    "negative zero": ("f32[] constant(-0)", np.float32(-0.0)),
    "matrix": (
        "s32[2,3] constant({ { 1, 2, 3 }, /*i0=1*/ {-4, 5, 6} })",
        np.array([[1, 2, 3], [-4, 5, 6]], np.int32),
    ),
    "with its shape": ("s32[2] constant(s32[2]{0} {7, 8})", np.array([7, 8], np.int32)),
    "three dimensions": (
        "u8[1,2,2] constant({{{0,255},{3,4}}})",
        np.array([[[0, 255], [3, 4]]], np.uint8),
    ),
    "pred": ("pred[3] constant({true, 0, 1})", np.array([True, False, True])),
    "special": (
        "f32[3] constant({inf, -inf, nan})",
        np.array([np.inf, -np.inf, np.nan], np.float32),
    ),
    "complex": (
        "c64[2] constant({(1, -2), (inf, 0.5)})",
        np.array([1 - 2j, complex(np.inf, 0.5)], np.complex64),
    ),
    "complex scalar": ("c128[] constant((1, 2))", np.complex128(1 + 2j)),
    "bf16": ("bf16[2] constant({0.1, 3.39e+38})", np.array([0.1, 3.39e38], ml_dtypes.bfloat16)),
    "f8": ("f8e4m3fn[2] constant({448, nan})", np.array([448, np.nan], ml_dtypes.float8_e4m3fn)),
    "s4": ("s4[2] constant({-8, 7})", np.array([-8, 7], ml_dtypes.int4)),
    "s64": ("s64[] constant(-9223372036854775808)", np.int64(-(2**63))),
    "u64": ("u64[1] constant({18446744073709551615})", np.array([2**64 - 1], np.uint64)),
    "empty": ("f32[0] constant({})", np.zeros(0, np.float32)),
    "empty rows": ("f32[2,0] constant({ {}, {} })", np.zeros((2, 0), np.float32)),
    "no rows": ("f32[0,2] constant({})", np.zeros((0, 2), np.float32)),
    "the largest": ("f32[] constant(3.40282347e+38)", np.finfo(np.float32).max),
    "a denormal": ("f32[] constant(1e-45)", np.float32(1e-45)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name):
    text, wanted = CONSTANTS[name]
    found = evaluated(module(f"ROOT c = {text}"))
    same(found, wanted)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes() or np.isnan(wanted).any()


def test_nan_with_payload():
    found = evaluated(module("ROOT c = f32[2] constant({-nan(0x7fffff), nan(0x400001)})"))
    np.testing.assert_array_equal(np.asarray(found).view(np.uint32), [0xFFFFFFFF, 0x7FC00001])


def test_tuple_constants():
    found = evaluated(module("ROOT c = (s32[], (f32[2], pred[])) constant((3, ({1, 2}, true)))"))
    same(found, (np.int32(3), np.array([1, 2], np.float32), np.bool_(True)))


def test_large_constants_read_fast():
    numbers = np.arange(300_000, dtype=np.float32).reshape(300, 1000) / 7
    rows = ", ".join(["{" + ", ".join(map(repr, row.tolist())) + "}" for row in numbers])
    found = evaluated(module(f"ROOT c = f32[300,1000] constant({{{rows}}})"))
    np.testing.assert_array_equal(found, numbers)


# Bitcast: the bytes in memory stay, and are read along another layout.


def in_memory(array, order, tile=()):
    """The elements one by one as they lie in memory; None where there is padding."""
    slowest = order[::-1]
    physical = array.transpose(slowest)
    if not tile:
        return list(physical.reshape(-1))
    missing = len(tile) - physical.ndim
    physical = physical.reshape((1,) * max(missing, 0) + physical.shape)
    outer, inner = physical.shape[: physical.ndim - len(tile)], physical.shape[-len(tile) :]
    counts = [math.ceil(size / part) for size, part in zip(inner, tile, strict=True)]
    found = []
    for at in itertools.product(*map(range, outer), *map(range, counts), *map(range, tile)):
        row, number, within = at[: len(outer)], at[len(outer) : -len(tile)], at[-len(tile) :]
        place = [n * part + w for n, part, w in zip(number, tile, within, strict=True)]
        inside = all(each < size for each, size in zip(place, inner, strict=True))
        found.append(physical[(*row, *place)] if inside else None)
    return found


# Operand sizes, layout, tile; the same of the result.
BITCASTS = [
    ((2, 3), (1, 0), (), (6,), (0,), ()),
    ((2, 3), (0, 1), (), (6,), (0,), ()),
    ((2, 3), (0, 1), (), (3, 2), (1, 0), ()),
    ((2, 3), (1, 0), (), (3, 2), (0, 1), ()),
    ((2, 3, 4), (0, 2, 1), (), (4, 6), (0, 1), ()),
    ((2, 3, 4), (1, 2, 0), (), (2, 4, 3), (2, 1, 0), ()),
    ((8,), (0,), (), (2, 1, 4), (1, 0, 2), ()),
    ((4, 6), (1, 0), (2, 3), (2, 2, 2, 3), (3, 2, 1, 0), ()),
    ((4, 6), (0, 1), (2, 2), (3, 2, 4), (2, 1, 0), ()),
    ((2, 2, 2, 3), (3, 2, 1, 0), (), (4, 6), (1, 0), (2, 3)),
    ((3, 5), (1, 0), (2, 4), (5, 3), (0, 1), (2, 4)),
    ((3, 5), (0, 1), (4, 2), (1, 3, 5), (1, 2, 0), (4, 2)),
    ((5,), (0,), (8,), (1, 5), (1, 0), (8,)),
    ((5,), (0,), (2, 8), (1, 5), (1, 0), (2, 8)),
]


def layout(order, tile):
    tiles = f":T({','.join(map(str, tile))})" if tile else ""
    return f"{{{','.join(map(str, order))}{tiles}}}"


@pytest.mark.parametrize("row", BITCASTS, ids=lambda row: f"{row[0]} to {row[3]}, {row[2]}{row[5]}")
def test_bitcast_keeps_the_bytes(row):
    sizes, order, tile, new_sizes, new_order, new_tile = row
    values = np.arange(math.prod(sizes), dtype=np.int32).reshape(sizes)
    kind, new = (f"s32[{','.join(map(str, each))}]" for each in (sizes, new_sizes))
    text = module(
        f"x = {kind}{layout(order, tile)} parameter(0)\n"
        f"ROOT b = {new}{layout(new_order, new_tile)} bitcast(x)"
    )
    found = np.asarray(evaluated(text, values))
    assert found.shape == new_sizes
    before, after = in_memory(values, order, tile), in_memory(found, new_order, new_tile)
    assert [a for a, b in zip(after, before, strict=True) if b is not None or a is not None] == [
        b for b in before if b is not None
    ]


def test_bitcast_of_types():
    text = "x = f32[2]{0} parameter(0)\nROOT b = {} bitcast(x)"
    values = np.array([1.5, -2], np.float32)
    for new, wanted in {
        "u32[2]{0}": values.view(np.uint32),
        "u8[2,4]{1,0}": values.view(np.uint8).reshape(2, 4),
        "u16[2,2]{0,1}": values.view(np.uint16).reshape(2, 2).T,
    }.items():
        same(evaluated(module(text.replace("{}", new)), values), wanted)


def test_bitcast_onto_padding_is_refused():
    for tile, new, problem in (
        ("T(2,4)", "s32[2,8]{1,0}", "elements of the result are padding of the operand"),
        ("T(2,4)", "s32[15]{0}", "16 and 15 elements in memory"),
        ("T(0)", "s32[15]{0}", "invalid tiles: tile dimension 0 must be positive"),
    ):
        sizes = "2,5" if "8" in new else "3,5"
        text = f"x = s32[{sizes}]{{1,0:{tile}}} parameter(0)\nROOT b = {new} bitcast(x)"
        problem = problem if "15 elements" not in problem else "elements in memory"
        with pytest.raises(mx.ImportError_, match=problem):
            mx.import_hlo(module(text))


def test_layouts_change_nothing_else():
    body = "x = f32[2,3]{} parameter(0)\ny = f32[2,3]{} parameter(1)\nROOT r = f32[2,3]{} add(x, y)"
    graphs = [
        mx.import_hlo(module(body.replace("{}", each))).graph
        for each in ("", "{1,0}", "{0,1}", "{1,0:T(8,128)(2,1)S(3)}", "{0,1:E(4)}")
    ]
    assert all(each == graphs[0] for each in graphs)
    same(mx.reference(mx.import_hlo(module(body.replace("{}", "{0,1}"))))(X, Y), X + Y)


# Dynamic sizes.


def test_dynamic_sizes():
    text = module(
        """x = s32[6] parameter(0)
        n = s32[] parameter(1)
        d = s32[<=6] set-dimension-size(x, n), dimensions={0}
        e = s32[<=6] add(d, d)
        z = s32[] constant(0)
        s = s32[] reduce(e, z), dimensions={0}, to_apply=plus
        m = s32[] get-dimension-size(e), dimensions={0}
        ROOT r = (s32[], s32[]) tuple(s, m)""",
        ADD.replace("f32", "s32").replace("add {", "plus {"),
    )
    same(evaluated(text, np.arange(6, dtype=np.int32), np.int32(4)), (np.int32(12), np.int32(4)))


def test_static_and_back():
    text = module(
        """x = f32[2,3] parameter(0)
        n = s32[] constant(2)
        d = f32[2,<=3] set-dimension-size(x, n), dimensions={1}
        p = (f32[2,3], s32[], s32[]) custom-call(d), custom_call_target="PadToStatic"
        a = f32[2,3] get-tuple-element(p), index=0
        h = s32[] get-tuple-element(p), index=1
        w = s32[] get-tuple-element(p), index=2
        q = f32[2,<=3] custom-call(a, h, w), custom_call_target="SliceToDynamic"
        ROOT r = f32[2,<=3] negate(q)"""
    )
    same(evaluated(text, X), -X[:, :2])


def test_unbounded_sizes_are_refused():
    with pytest.raises(mx.ImportError_, match=r"line 10.* has a dimension without a bound"):
        mx.import_hlo(module("ROOT x = f32[?] parameter(0)"))


# Several processes.


def simulated(text, *arguments):
    imported = mx.import_hlo(text)
    return [row[0] for row in mx.simulate([[imported]] * len(arguments), [[a] for a in arguments])]


RANKS = [(np.full(4, rank, np.float32) + np.arange(4, dtype=np.float32),) for rank in range(4)]
PROCESSES = {
    "all-reduce": (
        "ROOT r = f32[4] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add",
        lambda xs, at: xs[at // 2 * 2] + xs[at // 2 * 2 + 1],
    ),
    "all-reduce of iota groups": (
        "ROOT r = f32[4] all-reduce(x), replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add",
        lambda xs, at: xs[at % 2] + xs[at % 2 + 2],
    ),
    "all-reduce along an axis of a mesh": (
        "ROOT r = f32[4] all-reduce(x), replica_groups=mesh['a'=2,'b'=2] {'b'}, to_apply=add",
        lambda xs, at: xs[at // 2 * 2] + xs[at // 2 * 2 + 1],
    ),
    "all-reduce along a part of an axis": (
        "ROOT r = f32[4] all-reduce(x), replica_groups=mesh['a'=4] {'a':(1)2}, to_apply=add",
        lambda xs, at: xs[at % 2] + xs[at % 2 + 2],
    ),
    "all-reduce over a mesh of devices in another order": (
        """ROOT r = f32[4] all-reduce(x), replica_groups=mesh['a'=2,'b'=2],
               device_ids=([2,2]T(1,0)) {'b'}, to_apply=add""",
        lambda xs, at: xs[at % 2] + xs[at % 2 + 2],
    ),
    "all-gather along all axes": (
        """ROOT r = f32[16] all-gather(x), replica_groups=mesh['a'=2,'b'=2] {'b','a'},
               dimensions={0}""",
        lambda xs, at: np.concatenate([xs[0], xs[2], xs[1], xs[3]]),
    ),
    "all-reduce-start": (
        """s = f32[4] all-reduce-start(x), replica_groups={}, to_apply=add, channel_id=3,
               use_global_device_ids=false
           ROOT r = f32[4] all-reduce-done(s)""",
        lambda xs, at: sum(xs),
    ),
    "all-reduce of two": (
        """s = (f32[4], f32[4]) all-reduce(x, x), replica_groups={{0,1,2,3}}, to_apply=add
           ROOT r = f32[4] get-tuple-element(s), index=1""",
        lambda xs, at: sum(xs),
    ),
    "all-gather-start": (
        """s = (f32[4], f32[8]) all-gather-start(x), replica_groups={{0,1},{2,3}}, dimensions={0}
           ROOT r = f32[8] all-gather-done(s)""",
        lambda xs, at: np.concatenate(xs[at // 2 * 2 :][:2]),
    ),
    "all-gather-start of two": (
        """s = ((f32[4], f32[4]), (f32[8], f32[8])) all-gather-start(x, x),
               replica_groups={{0,1},{2,3}}, dimensions={0}
           d = (f32[8], f32[8]) all-gather-done(s)
           ROOT r = f32[8] get-tuple-element(d), index=0""",
        lambda xs, at: np.concatenate(xs[at // 2 * 2 :][:2]),
    ),
    "collective-permute-start": (
        """s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x),
               source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
           ROOT r = f32[4] collective-permute-done(s)""",
        lambda xs, at: xs[at - 1],
    ),
    "reduce-scatter": (
        """ROOT r = f32[1] reduce-scatter(x), replica_groups={{0,1,2,3}}, dimensions={0},
               to_apply=add""",
        lambda xs, at: sum(xs)[at : at + 1],
    ),
    "reduce-scatter of two": (
        """y = f32[4] negate(x)
           t = (f32[2], f32[2]) reduce-scatter(x, y), replica_groups={{0,1},{2,3}}, dimensions={0},
               to_apply=add
           ROOT r = f32[2] get-tuple-element(t), index=1""",
        lambda xs, at: -(xs[at // 2 * 2] + xs[at // 2 * 2 + 1]).reshape(2, 2)[at % 2],
    ),
    "collective-permute of two": (
        """y = f32[4] negate(x)
           t = (f32[4], f32[4]) collective-permute(x, y),
               source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
           ROOT r = f32[4] get-tuple-element(t), index=1""",
        lambda xs, at: -xs[at - 1],
    ),
    "reduce-scatter-start": (
        """s = ((f32[4]), f32[1]) reduce-scatter-start(x), replica_groups={{0,1,2,3}},
               dimensions={0}, to_apply=add
           ROOT r = f32[1] reduce-scatter-done(s)""",
        lambda xs, at: sum(xs)[at : at + 1],
    ),
    "all-to-all": (
        "ROOT r = f32[4] all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={0}",
        lambda xs, at: np.array([each[at] for each in xs]),
    ),
    "all-to-all of a tuple": (
        """y = f32[4] negate(x)
           t = (f32[4], f32[4]) all-to-all(x, y), replica_groups={{0,1},{2,3}}
           a = f32[4] get-tuple-element(t), index=0
           b = f32[4] get-tuple-element(t), index=1
           ROOT r = f32[8] concatenate(a, b), dimensions={0}""",
        lambda xs, at: np.concatenate(xs[at // 2 * 2 :][:2]) * (-1 if at % 2 else 1),
    ),
    "collective-broadcast": (
        "ROOT r = f32[4] collective-broadcast(x), replica_groups={{1,0},{3,2}}",
        lambda xs, at: xs[at | 1],
    ),
    "replica-id": (
        """i = u32[] replica-id()
           j = u32[] partition-id()
           k = u32[] subtract(i, j)
           ROOT r = f32[] convert(k)""",
        lambda xs, at: np.float32(at),
    ),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_processes(name):
    body, wanted = PROCESSES[name]
    results = simulated(module(f"x = f32[4] parameter(0)\n{body}"), *RANKS)
    for at, result in enumerate(results):
        same(result, np.asarray(wanted([x for (x,) in RANKS], at), np.float32))


def test_what_is_started_may_be_the_result():
    text = module(
        """x = f32[4] parameter(0)
        ROOT s = (f32[4], f32[8]) all-gather-start(x), dimensions={0},
            replica_groups={{0,1},{2,3}}"""
    )
    (result,) = mx.import_hlo(text).graph.outputs
    assert (result.instruction.op.name, str(result.shape)) == ("AllGatherStart", "(f32[4], f32[8])")


def test_channels():
    sender = module(
        """x = f32[4] parameter(0)
        t = token[] after-all()
        s = (f32[4], u32[], token[]) send(x, t), channel_id=2
        d = token[] send-done(s), channel_id=2
        ROOT r = f32[4] add-dependency(x, d)"""
    )
    receiver = module(
        """t = token[] after-all()
        s = (f32[4], u32[], token[]) recv(t), channel_id=2
        d = (f32[4], token[]) recv-done(s), channel_id=2
        ROOT r = f32[4] get-tuple-element(d), index=0"""
    )
    programs = [[mx.import_hlo(sender)], [mx.import_hlo(receiver)]]
    _, ((received),) = mx.simulate(programs, [[RANKS[2]], [()]])
    np.testing.assert_array_equal(received, RANKS[2][0])


def test_queues():
    text = module(
        """t = token[] after-all()
        i = ((f32[4], s32[]), token[]) infeed(t), infeed_config="a\\"b"
        p = (f32[4], s32[]) get-tuple-element(i), index=0
        u = token[] get-tuple-element(i), index=1
        x = f32[4] get-tuple-element(p), index=0
        o = token[] outfeed(p, u), outfeed_shape=(f32[4]{0}, s32[]), outfeed_config="c"
        ROOT r = f32[4] negate(x)"""
    )
    item = (RANKS[1][0], np.int32(5))
    ((result,),) = mx.simulate([[mx.import_hlo(text)]], [[()]], infeed=[item])
    np.testing.assert_array_equal(result, -item[0])


def test_tokens_are_no_arguments():
    text = module(
        """t = token[] parameter(0)
        x = f32[4] parameter(1)
        i = (f32[4], token[]) infeed(t)
        y = f32[4] get-tuple-element(i), index=0
        u = token[] get-tuple-element(i), index=1
        z = f32[4] add(x, y)
        ROOT r = (token[], f32[4]) tuple(u, z)"""
    )
    imported = mx.import_hlo(text)
    assert list(map(str, imported.graph.input_shapes)) == ["token[]", "f32[4]"]
    ((result,),) = mx.simulate([[imported]], [[RANKS[0]]], infeed=[RANKS[1][0]])
    np.testing.assert_array_equal(result, RANKS[0][0] + RANKS[1][0])
    with pytest.raises(mx.TransformError, match="3 arguments for 2 inputs"):
        mx.reference(imported)(1, 2, 3)


# Custom calls.


def test_custom_calls_of_the_user():
    import minixla_ops as ops

    ops.register_custom_call("test_hlo.scaled", lambda x, factor, name: x * factor)
    text = module(
        """x = f32[2,3] parameter(0)
        ROOT c = f32[2,3] custom-call(x), custom_call_target="test_hlo.scaled",
            api_version=API_VERSION_TYPED_FFI, operand_layout_constraints={f32[2,3]{1,0}},
            backend_config={factor = 2.5 : f32, name = "a, b"}"""
    )
    same(evaluated(text, X), X * np.float32(2.5))


def test_custom_calls_of_libraries_are_kept():
    text = module(
        """x = f32[2,3] parameter(0)
        ROOT c = (f32[2,2], s8[64]) custom-call(x, x), custom_call_target="__cublas$gemm",
            custom_call_has_side_effect=true,
            backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0}}"""
    )
    imported = mx.import_hlo(text)
    (call,) = imported.graph.instructions
    assert call.op.target_name == "__cublas$gemm"
    assert call.has_side_effect
    with pytest.raises(mx.TransformError, match=r"'__cublas.gemm' has no Python function"):
        mx.reference(imported)(X)


def test_layouts_of_custom_calls():
    text = module(
        """x = f32[2,3]{0,1} parameter(0)
        n = s32[] constant(1)
        ROOT c = (f32[2,2]{0,1}, s8[64]{0}) custom-call(x, n), custom_call_target="other",
            operand_layout_constraints={f32[2,3]{0,1}, s32[]}, called_computations={%add}"""
    )
    (_, call) = mx.import_hlo(text).graph.instructions
    assert call.op.operand_layouts == ((0, 1), ())
    assert call.op.result_layouts == ((0, 1), (0,))
    assert dict(call.op.options) == {"called_computations": "{%add}"}
    for wrong, problem in (
        ("{f32[2,3]{0,1}}", "Expected 2 operand layout constraints, 1 given"),
        ("{f32[2,3]{0,0}, s32[]}", "custom-call: incorrect layout"),
    ):
        with pytest.raises(mx.ImportError_, match=problem):
            mx.import_hlo(text.replace("{f32[2,3]{0,1}, s32[]}", wrong))


# Where things may stand.


def test_computations_in_any_order():
    text = """HloModule late, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) },
        frontend_attributes={a="{", b={c = #d<[{}]>}}

ENTRY %main (x: f32[2]) -> f32[2] { // the callee comes later
  %x = f32[2]{0} parameter(0), sharding={replicated}, metadata={op_name="x"}
  ROOT %y = f32[2]{0} call(%x), to_apply=%f
}

%f (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  ROOT %y = f32[2]{0} /* "why" */ sine(%x)
}
"""
    values = np.array([1, 2], np.float32)
    np.testing.assert_allclose(evaluated(text, values), np.sin(values), rtol=1e-6)


def test_instructions_without_metadata_have_their_line_in_the_text():
    text = module("x = f32[2,3] parameter(0)\nROOT y = f32[2,3] negate(f32[2,3] abs(x))")
    first, second = mx.import_hlo(text).graph.instructions
    line = text[: text.rindex("ROOT")].count("\n") + 1
    assert str(second.source) == f"<hlo>:{line} (main)"
    # One that is written as an operand has that of its computation.
    assert (first.source.line, first.source.function) == (line - 2, "main")


def test_the_root_may_stand_anywhere():
    text = module("x = f32[2,3] parameter(0)\nROOT y = f32[2,3] negate(x)\nz = f32[2,3] abs(y)")
    same(evaluated(text, X), -X)
    unmarked = module("x = f32[2,3] parameter(0)\ny = f32[2,3] negate(x)\nz = f32[2,3] abs(y)")
    same(evaluated(unmarked, X), X)


def test_flat_parameters_and_results():
    text = module(
        """p = (f32[2,3], (s32[], f32[2,3])) parameter(0)
        a = f32[2,3] get-tuple-element(p), index=0
        q = (s32[], f32[2,3]) get-tuple-element(p), index=1
        ROOT r = ((s32[], f32[2,3]), f32[2,3]) tuple(q, a)"""
    )
    imported = mx.import_hlo(text)
    assert list(map(str, imported.graph.input_shapes)) == ["f32[2,3]", "s32[]", "f32[2,3]"]
    same(mx.reference(imported)(X, np.int32(3), Y), (np.int32(3), Y, X))


def test_bytes_and_paths(tmp_path, monkeypatch):
    text = module("x = f32[2,3] parameter(0)\nROOT y = f32[2,3] negate(x)")
    path = tmp_path / "program.hlo"
    path.write_text(text)
    graph = mx.import_hlo(text).graph
    assert mx.import_hlo(path).graph == graph
    assert mx.import_hlo(str(path)).graph == graph
    monkeypatch.chdir(tmp_path)
    assert mx.import_hlo("program.hlo").graph == graph
    assert mx.import_hlo(text.encode()).graph == graph
