"""Search for errors of readers that are not our error classes.

Each case is a valid program with some attributes or types replaced: by those of other programs, or
by extreme ones. Reading must return a program that can be printed, or raise a MinixlaError.
"""

from __future__ import annotations

import itertools
import random
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from jax.extend.mlir import ir
from jax.interpreters.mlir import make_ir_context

import minixla as mx
from minixla.core.graph import Graph
from tests.minixla.interop.fuzz_import import jax_texts
from tests.minixla.interop.import_programs import MLP, PROGRAMS, main
from tests.soak import shardy

#: Seconds; reading normally takes a fraction of a second.
LIMIT = 40.0
_F32 = "tensor<2x3xf32>"
_GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_ADD = """({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  })"""
#: Programs of one operation, with attributes that other programs lack.
_MORE = [
    f'%r = "stablehlo.all_reduce"(%x) {_ADD} {{{_GROUPS}, {_CHANNEL}, use_global_device_ids}} '
    f": ({_F32}) -> {_F32}",
    f'%r = "stablehlo.collective_permute"(%x) {{source_target_pairs = dense<[[0, 1]]> : '
    f"tensor<1x2xi64>, {_CHANNEL}}} : ({_F32}) -> {_F32}",
    f'%g = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, {_GROUPS}}} : ({_F32}) -> '
    f'tensor<4x3xf32>\n%r = "stablehlo.reduce_scatter"(%g) {_ADD} {{scatter_dimension = 0 : i64, '
    f"{_GROUPS}}} : (tensor<4x3xf32>) -> {_F32}",
    f'%r = "stablehlo.all_to_all"(%x) {{split_dimension = 0 : i64, concat_dimension = 0 : i64, '
    f"split_count = 2 : i64, {_GROUPS}}} : ({_F32}) -> {_F32}",
    f"%r = stablehlo.custom_call @f(%x) {{has_side_effect = true, api_version = 2 : i32, "
    'backend_config = "a", output_operand_aliases = [#stablehlo.output_operand_alias<'
    "output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], operand_layouts "
    "= [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} "
    f": ({_F32}) -> {_F32}",
    f"%r = stablehlo.custom_call @f(%x) {{api_version = 4 : i32, backend_config = {{a = 1 : i32, "
    f'b = "x", c = array<i64: 1, 2>, d = 1.0 : f32, e = dense<1> : tensor<2xi32>, f = true}}}} '
    f": ({_F32}) -> {_F32}",
    "%a, %i = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = "
    f"true}}, mhlo.version = 1 : i64}} : ({_F32}) -> (tensor<2x2xf32>, tensor<2x2xi32>)\n"
    f"%r = stablehlo.negate %x : {_F32}",
    f"%c = stablehlo.fft %z, type = FFT, length = [3] : (tensor<2x3xcomplex<f32>>) -> "
    f"tensor<2x3xcomplex<f32>>\n%r = stablehlo.real %c : (tensor<2x3xcomplex<f32>>) -> {_F32}",
    "%s, %b = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> "
    f"(tensor<2xui64>, tensor<2x3xui32>)\n%r = stablehlo.negate %x : {_F32}",
    f"%r = stablehlo.reduce_precision %x, format = e5m2 : {_F32}",
    f'%r = "stablehlo.exponential"(%x) {{result_accuracy = #stablehlo.result_accuracy<atol = 0.0, '
    "rtol = 0.0, ulps = 5, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} "
    f": ({_F32}) -> {_F32}",
    '%q = "stablehlo.triangular_solve"(%m, %m) <{left_side = true, lower = true, unit_diagonal = '
    "false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3xf32>, "
    f"tensor<3x3xf32>) -> tensor<3x3xf32>\n%r = stablehlo.negate %x : {_F32}",
    f'%r = "stablehlo.dot_general"(%x, %m) <{{dot_dimension_numbers = #stablehlo.dot<'
    "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = "
    "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], algorithm = "
    "#stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, "
    "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
    "num_primitive_operations = 1, allow_imprecise_accumulation = false>}> "
    f": ({_F32}, tensor<3x3xf32>) -> {_F32}",
    f'%t = stablehlo.create_token : !stablehlo.token\n%u = "stablehlo.send"(%x, %t) <{{'
    "channel_handle = #stablehlo.channel_handle<handle = 3, type = 2>, is_host_transfer = true}> "
    f": ({_F32}, !stablehlo.token) -> !stablehlo.token\n"
    '%w:2 = "stablehlo.infeed"(%u) <{infeed_config = "a", layout = [[1, 0]]}> : '
    f"(!stablehlo.token) -> ({_F32}, !stablehlo.token)\n%r = stablehlo.negate %w#0 : {_F32}",
    '%q = "stablehlo.batch_norm_inference"(%x, %v, %v, %v, %v) <{epsilon = 0.001 : f32, '
    "feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, "
    f"tensor<3xf32>) -> {_F32}\n%r = stablehlo.negate %q : {_F32}",
    f'%r = stablehlo.composite "a.b" %x {{composite_attributes = {{n = 1 : i64}}, decomposition = '
    f"@inner, version = 1 : i32}} : ({_F32}) -> {_F32}",
]
_INPUTS = (
    "%x: tensor<2x3xf32>, %z: tensor<2x3xcomplex<f32>>, %k: tensor<2xui64>, %m: tensor<3x3xf32>, "
    "%v: tensor<3xf32>"
)
_INNER = f"func.func private @inner(%x: {_F32}) -> {_F32} {{ return %x : {_F32} }}\n"
_HLO = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }

add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }

ENTRY e {
  x = f32[2,3]{1,0} parameter(0), frontend_attributes={a="b"}
  zero = f32[] constant(0)
  r = f32[2]{0} reduce(x, zero), dimensions={1}, to_apply=add
  g = f32[4,3]{1,0} all-gather(x), replica_groups={{0,1}}, dimensions={0}, channel_id=1
  s = (f32[2,3]{1,0}, s32[2,3]{1,0}) custom-call(x), custom_call_target="f", backend_config="q"
  t = f32[2,3]{1,0} get-tuple-element(s), index=0
  p = f32[4,5]{1,0} pad(x, zero), padding=0_2x1_1
  d = f32[2,2]{1,0} dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  i = s32[2,3]{1,0} iota(), iota_dimension=1
  ROOT o = (f32[2]{0}, f32[4,3]{1,0}, f32[4,5]{1,0}, f32[2,2]{1,0}) tuple(r, g, p, d)
}
"""
_NUMBERS = (
    "0",
    "-1",
    "1",
    "7",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
)
#: Attributes of every sort, and types.
_ATTRIBUTES = [
    *[f"{each} : i64" for each in _NUMBERS],
    *(
        "1 : i32",
        "1 : i1",
        "1.0 : f32",
        "0x7FC00000 : f32",
        "true",
        "unit",
        '"a"',
        '""',
        '"\\22\\00"',
    ),
    *("[]", "{}", "[1]", '["a", 1, {}]', "{a = {b = []}}", "array<i64>", "array<i64: -1, 0, 9>"),
    *("array<i1: true, false>", "array<f32: 1.0>", "dense<> : tensor<0xi64>"),
    *("dense<0> : tensor<2x0xi64>", "dense<-1> : tensor<1x1xi64>", "dense<1> : tensor<i64>"),
    *("dense<[[0, 0]]> : tensor<1x2xi64>", "dense<1.0> : tensor<2xf32>", "@main", "@none", "i32"),
    *("tensor<2xf32>", "dense<(1.0, 2.0)> : tensor<complex<f32>>", "affine_map<(d0) -> (d0)>"),
    *("dense_resource<a> : tensor<2xf32>", "loc(unknown)", "#stablehlo.bounds<3>"),
    *(
        "#stablehlo<precision HIGHEST>",
        "#stablehlo<transpose ADJOINT>",
        "#stablehlo<fft_type IRFFT>",
    ),
    *("#stablehlo<comparison_direction NE>", "#stablehlo<comparison_type TOTALORDER>"),
    *("#stablehlo<rng_algorithm PHILOX>", "#stablehlo<rng_distribution NORMAL>"),
    "#stablehlo.channel_handle<handle = -1, type = 9>",
]
_TYPES = [
    *("tensor<f32>", "tensor<0xf32>", "tensor<2x3xf64>", "tensor<2x3xi1>", "tensor<2x3xi4>"),
    *(
        "tensor<2x3xui2>",
        "tensor<2x3xcomplex<f64>>",
        "tensor<2x3xf8E4M3FN>",
        "tensor<2x3xf4E2M1FN>",
    ),
    *(
        "tensor<?x3xf32>",
        "tensor<*xf32>",
        "tensor<?x3xf32, #stablehlo.bounds<4, ?>>",
        "tensor<3x2xbf16>",
    ),
    *(
        "tensor<2x3xi7>",
        "tensor<2x3xindex>",
        "tensor<2x3xf128>",
        "tensor<4294967296x4294967296xf32>",
    ),
    *("tensor<9223372036854775807xi8>", "!stablehlo.token", "tuple<>", "tuple<tensor<f32>>"),
    *(
        "f32",
        "i32",
        "none",
        "index",
        "vector<2xf32>",
        "memref<2xf32>",
        "(tensor<f32>) -> tensor<f32>",
    ),
    "tensor<2x3x!quant.uniform<i8:f32, 0.5>>",
]
_VALUE = re.compile(
    r"(?<= = )(?:dense<[^<>]*> : tensor<\w*>|array<[^<>]*>|\"[^\"\n]*\"|#\w+(?:\.\w+)?<[^<>]*>"
    r"|-?\d[\w.]*(?: : \w+)?|true|false|unit|@\w+|\[[^][]*\])"
)
_TYPE = re.compile(r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>|!stablehlo\.token")
_HLO_VALUE = re.compile(r"(?<=\w=)(?:\{[^{}]*\}|\"[^\"\n]*\"|[\w.\-]+)")
_HLO_TYPE = re.compile(r"\b[a-z]\w*\[[\d,]*\](?:\{[\d,]*\})?")
_HLO_VALUES = [
    "{}",
    "{0}",
    "{-1}",
    "{{0,1},{1,0}}",
    "0",
    "-1",
    "99999999999",
    '"a"',
    "add",
    "e",
    "{9}",
]
_HLO_TYPES = [
    "f32[]",
    "f32[0]",
    "s4[2,3]",
    "c64[2,3]{1,0}",
    "token[]",
    "(f32[])",
    "f32[<=3]",
    "q[2]",
]


@cache
def corpus() -> tuple[str, ...]:
    """Return valid texts, in MLIR's pretty and generic forms, and one HLO text."""
    texts = [MLP, *(main(row.body) for row in PROGRAMS.values() if "%x: " not in row.body)]
    texts += [_INNER + main(body, _INPUTS) for body in _MORE]
    texts += jax_texts()
    texts += [shardy.program(seed) for seed in range(6)]
    generic = []
    for text in texts:
        with make_ir_context():
            try:
                module = ir.Module.parse(text)
            except ir.MLIRError:
                continue
            generic.append(module.operation.get_asm(print_generic_op_form=True))
    return (*texts, *generic, _HLO)


@cache
def _pools() -> tuple[list[str], list[str]]:
    """Return the attribute values and types of all programs."""
    values = {each for text in corpus()[:-1] for each in _VALUE.findall(text)}
    types = {each for text in corpus()[:-1] for each in _TYPE.findall(text)}
    return sorted(values) + _ATTRIBUTES, sorted(types) + _TYPES


@dataclass
class Case:
    """A program with changed attributes and types.

    Attributes:
        text: the program as it was.
        changes: the start and end of each replaced part, and the new text.
    """

    text: str
    changes: tuple[tuple[int, int, str], ...]

    @property
    def program(self) -> str:
        """Return the changed text."""
        text = self.text
        for start, end, new in sorted(self.changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def run(self) -> str | None:
        """Return the fault; None if the text is read, or raises our error, in time."""
        text, start = self.program, time.monotonic()
        read = mx.import_hlo if self.text.startswith("HloModule") else mx.import_stablehlo
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = read(text)
                if isinstance(program.graph, Graph):  # not by sizes
                    _ = str(program.graph), program.graph.stablehlo()
        except mx.MinixlaError:
            pass
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:500]
        seconds = time.monotonic() - start
        return f"it takes {seconds:.0f} s" if seconds > LIMIT else None

    def shrunk(self) -> Case:
        """Return the case with as few changes as show the same error."""
        kind, found = (self.run() or "").partition(":")[0], self
        for change in self.changes:
            rest = tuple(each for each in found.changes if each is not change)
            case = Case(self.text, rest)
            if rest and (case.run() or "").partition(":")[0] == kind:
                found = case
        return found

    def __str__(self) -> str:
        return self.program


def case(seed: int) -> Case:
    """Return the case of a seed."""
    draw = random.Random(seed)
    text = draw.choice(corpus())
    is_hlo = text.startswith("HloModule")
    values, types = _pools()
    patterns = (
        [(_HLO_VALUE, _HLO_VALUES), (_HLO_TYPE, _HLO_TYPES)]
        if is_hlo
        else [(_VALUE, values), (_TYPE, types)]
    )
    changes: list[tuple[int, int, str]] = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        pattern, pool = draw.choice(patterns)
        places = [match.span() for match in pattern.finditer(text)]
        places = [
            (start, end)
            for start, end in places
            if all(end <= other or start >= last for other, last, _ in changes)
        ]
        if not places:
            continue
        place = draw.choice(places)
        new = draw.choice(pool)
        changes.append((*place, new))
        # Usually all occurrences of a type change, so that the verifier finds no other fault.
        if pattern in (_TYPE, _HLO_TYPE) and draw.random() < 0.6:
            old = text[slice(*place)]
            changes += [
                (*each, new) for each in places if each != place and text[slice(*each)] == old
            ]
    return Case(text, tuple(changes))


def cases(seed: int) -> Iterator[Case]:
    """Yield cases without end; different seeds share no case."""
    for number in itertools.count(seed << 20):
        yield case(number)
