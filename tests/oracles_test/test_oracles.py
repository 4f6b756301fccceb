"""The interpreter and XLA: every type passes through unchanged, and what fails says so."""

import ml_dtypes
import numpy as np
import pytest

from minixla.engine import subprocesses
from tests.oracles import (
    ALL_TYPES,
    OracleCrash,
    OracleError,
    assert_same,
    edge_values,
    flush_denormals,
    random_values,
    run_stablehlo,
    run_xla,
    run_xla_optimized,
    tensor_type,
)

BOTH = pytest.mark.parametrize("run", [run_stablehlo, run_xla])


def program(arguments, results, body):
    """A module whose @main takes %0, %1 ... of the arguments' types."""
    inputs = ", ".join(f"%{i}: {tensor_type(array)}" for i, array in enumerate(arguments))
    return f"func.func @main({inputs}) -> ({', '.join(results)}) {{\n{body}\n}}"


def unary(op, array):
    type_ = tensor_type(array)
    return program([array], [type_], f"%r = {op} %0 : {type_}\nreturn %r : {type_}")


def binary(op, lhs):
    type_ = tensor_type(lhs)
    return program([lhs, lhs], [type_], f"%r = {op} %0, %1 : {type_}\nreturn %r : {type_}")


@BOTH
@pytest.mark.parametrize(("name", "dtype"), ALL_TYPES)
def test_every_bit_pattern_passes_through(run, name, dtype):
    if run is run_xla and name.startswith("f6E"):
        with pytest.raises(OracleError, match="Invalid XLA PrimitiveType"):
            run(unary("stablehlo.optimization_barrier", np.zeros(2, dtype)), [np.zeros(2, dtype)])
        return
    edges = edge_values(dtype)
    arrays = [edges, edges[:0].reshape(2, 0), edges[-1], random_values(dtype, (2, 3), 0)]
    types = [tensor_type(array) for array in arrays]
    body = f"return %0, %1, %2, %3 : {', '.join(types)}"
    results = run(program(arrays, types, body), arrays)
    for result, array in zip(results, arrays, strict=True):
        assert (result.dtype, result.shape) == (array.dtype, array.shape)
        assert result.tobytes() == array.tobytes()


@BOTH
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_multiplied(run, dtype):
    lhs, rhs = np.array([1 + 2j, -3j, 5], dtype), np.array([2 - 7j, 4 + 1j, 1j], dtype)
    (result,) = run(binary("stablehlo.multiply", lhs), [lhs, rhs])
    assert_same(result, np.array([16 - 3j, 3 - 12j, 5j], dtype), signed_zeros=False)


@BOTH
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, ml_dtypes.int4, np.bool_])
def test_sums_have_their_own_width(run, dtype):
    lhs, rhs = random_values(dtype, (50,), 0), random_values(dtype, (50,), 1)
    (result,) = run(binary("stablehlo.add", lhs), [lhs, rhs])
    assert_same(result, (lhs | rhs) if dtype is np.bool_ else lhs + rhs)


@BOTH
def test_functions_calls_and_attributes_of_a_jax_module(run):
    text = """
    module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<3xf32> {mhlo.sharding = "{replicated}"})
          -> (tensor<3xcomplex<f32>> {jax.result_info = "result"}) {
        %0 = call @double(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
        %1 = stablehlo.complex %0, %arg0 : tensor<3xcomplex<f32>>
        return %1 : tensor<3xcomplex<f32>>
      }
      func.func private @double(%arg0: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }"""
    values = np.float32([1, -0.0, np.inf])
    (result,) = run(text, [values])
    expected = np.empty(3, np.complex64)
    expected.real, expected.imag = values + values, values
    assert_same(result, expected)


@pytest.mark.parametrize("run", [run_stablehlo, run_xla_optimized])
@pytest.mark.parametrize(
    ("op", "function", "ulp"), [("chlo.asinh", np.arcsinh, 2), ("chlo.atan", np.arctan, 1)]
)
def test_chlo_is_legalised(run, op, function, ulp):
    values = random_values(np.float32, (100,), 0)
    type_ = tensor_type(values)
    text = program([values], [type_], f"%r = {op} %0 : {type_} -> {type_}\nreturn %r : {type_}")
    expected = function(values.astype(np.float64)).astype(np.float32)
    assert_same(run(text, [values])[0], expected, ulp=ulp, inputs=[values])


@BOTH
def test_dot_is_run(run):
    lhs, rhs = random_values(np.int32, (2, 3), 0), random_values(np.int32, (3, 4), 1)
    types = f"({tensor_type(lhs)}, {tensor_type(rhs)}) -> tensor<2x4xi32>"
    body = f"%r = stablehlo.dot %0, %1 : {types}\nreturn %r : tensor<2x4xi32>"
    assert_same(run(program([lhs, rhs], ["tensor<2x4xi32>"], body), [lhs, rhs])[0], lhs @ rhs)


@BOTH
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {", "expected"),
        ("func.func @main() -> tensor<f32> { %0 = stablehlo.nonsense : tensor<f32> }", "nonsense"),
        ("func.func @other() { return }", "main"),
    ],
)
def test_bad_modules_are_refused_and_shown(run, text, message):
    with pytest.raises(OracleError, match=message) as error:
        run(text, [])
    assert not isinstance(error.value, OracleCrash)
    assert text in str(error.value)


@BOTH
@pytest.mark.parametrize("arguments", [[], [np.int32([1, 2])], [np.float32([1, 2, 3])]])
def test_arguments_that_do_not_fit_are_refused(run, arguments):
    with pytest.raises(OracleError) as error:
        run(unary("stablehlo.negate", np.float32([1, 2])), arguments)
    assert not isinstance(error.value, OracleCrash)


def test_a_crash_names_the_program_and_the_next_call_works():
    matrix = np.eye(2, dtype=np.float32)
    text = unary("stablehlo.cholesky", matrix)
    with pytest.raises(OracleCrash, match=r"stablehlo\.cholesky is unsupported") as error:
        run_stablehlo(text, [matrix])
    assert text in str(error.value)
    assert_same(run_stablehlo(unary("stablehlo.negate", matrix), [matrix])[0], -matrix)


@BOTH
def test_an_endless_loop_is_given_up(run):
    # Powers of an even number overflow to zero, those of an odd one never: XLA cannot know which.
    body = """%r = stablehlo.while(%i = %0) : tensor<i64>
      cond { %zero = stablehlo.constant dense<0> : tensor<i64>
        %go = stablehlo.compare NE, %i, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %go : tensor<i1> }
      do { %next = stablehlo.multiply %i, %0 : tensor<i64>
        stablehlo.return %next : tensor<i64> }
      return %r : tensor<i64>"""
    text = program([np.int64(0)], ["tensor<i64>"], body)
    assert_same(run(text, [np.int64(2)])[0], np.int64(0))
    with pytest.raises(OracleCrash, match="did not answer in time"):
        run(text, [np.int64(3)], timeout=0.3)


def test_an_interrupt_leaves_no_reply_to_the_next_request(monkeypatch):
    one, two = np.float32(1), np.float32(2)
    text = unary("stablehlo.negate", one)
    run_stablehlo(text, [one])

    def interrupted(connection):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(subprocesses, "receive", interrupted)
        run_stablehlo(text, [one])
    assert run_stablehlo(text, [two]) == [np.float32(-2)]


def test_the_interpreter_keeps_denormals_and_xla_flushes_them():
    tiny = np.float32([1e-40, -1e-40, 1e-38, 1])
    text = binary("stablehlo.add", tiny)
    exact, flushed = (run(text, [tiny, tiny])[0] for run in (run_stablehlo, run_xla))
    assert_same(exact, tiny + tiny)
    assert_same(flushed, flush_denormals(tiny) + flush_denormals(tiny))
    assert (exact != flushed).any()


def test_documented_facts_of_division_and_power():
    lhs = np.int32([7, -(2**31), -(2**31), 3])
    rhs = np.int32([0, 0, -1, 2])
    assert_same(
        run_xla(binary("stablehlo.divide", lhs), [lhs, rhs])[0], np.int32([-1, -1, -(2**31), 1])
    )
    assert_same(
        run_xla(binary("stablehlo.remainder", lhs), [lhs, rhs])[0], np.int32([7, -(2**31), 0, 1])
    )
    with pytest.raises(OracleCrash, match="status -8"):
        run_stablehlo(binary("stablehlo.divide", lhs), [lhs, rhs])
    base, exponent = np.uint32([3, 3, 2]), np.uint32([63, 64, 2**31])
    text = binary("stablehlo.power", base)
    exact = [pow(int(b), int(e), 2**32) for b, e in zip(base, exponent, strict=True)]
    assert_same(run_stablehlo(text, [base, exponent])[0], np.uint32(exact))
    assert_same(run_xla(text, [base, exponent])[0], np.uint32([exact[0], 1, 0]))


def test_documented_facts_of_total_order_and_unsigned_indices():
    lhs, rhs = np.float32([-0.0, -np.nan]), np.float32([0.0, 1.0])
    types = f"({tensor_type(lhs)}, {tensor_type(rhs)}) -> tensor<2xi1>"
    body = f"%r = stablehlo.compare LT, %0, %1, TOTALORDER : {types}\nreturn %r : tensor<2xi1>"
    text = program([lhs, rhs], ["tensor<2xi1>"], body)
    assert_same(run_xla(text, [lhs, rhs])[0], np.bool_([True, True]))
    assert_same(run_stablehlo(text, [lhs, rhs])[0], np.bool_([False, False]))

    operand, start = np.arange(300, dtype=np.int32), np.uint8(200)
    types = "(tensor<300xi32>, tensor<ui8>) -> tensor<1xi32>"
    body = f"%r = stablehlo.dynamic_slice %0, %1, sizes = [1] : {types}\nreturn %r : tensor<1xi32>"
    text = program([operand, start], ["tensor<1xi32>"], body)
    assert_same(run_xla(text, [operand, start])[0], np.int32([200]))
    assert_same(run_stablehlo(text, [operand, start])[0], np.int32([0]))
