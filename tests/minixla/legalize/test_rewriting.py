"""The pass from graph to graph: where rules apply, and the key of compiled programs."""

from __future__ import annotations

import gc
import weakref

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, operation_named
from minixla.core.errors import TransformError
from minixla.legalize import Target, disabled, legalize, legalized, registry, rules_of
from minixla.legalize.registry import active_rules

CPU = Target("cpu")
CONSTANT = np.array([-1, 5], np.int32)


ZERO = np.int32(0)


def clz_of_constant(x=ZERO):
    return ops.clz(ops.constant(CONSTANT)) + x


def wrapped(how):
    """A program that counts the leading zeros of a constant within another program."""
    jitted = mx.jit(clz_of_constant)
    return {
        "jit": jitted,
        "call": lambda x: jitted(x) + jitted(x),
        "call of an operand": lambda x: mx.jit(lambda c: ops.clz(c) + x)(ops.constant(CONSTANT)),
        "loop": lambda x: mx.fori_loop(0, 2, lambda i, y: y + clz_of_constant(), x + CONSTANT * 0),
        "scan": lambda x: mx.scan(
            lambda c, e: (c + clz_of_constant(e), c), x + CONSTANT * 0, np.arange(3)
        )[0],
        "branch": lambda x: mx.cond(x > 0, clz_of_constant, lambda y: clz_of_constant(y) + 1, x),
        "map": lambda x: mx.vmap(clz_of_constant)(np.arange(3, dtype=np.int32) + x),
        "checkpoint": lambda x: mx.checkpoint(clz_of_constant)(x),
    }[how]


@pytest.mark.parametrize(
    "how", ["jit", "call", "call of an operand", "loop", "scan", "branch", "map", "checkpoint"]
)
def test_rules_apply_within_programs(how):
    program, x = wrapped(how), np.int32(3)
    graph = mx.make_graph(program)(x)
    assert "count_leading_zeros" in graph.stablehlo()
    text = graph.stablehlo(platform="cpu")
    assert "count_leading_zeros" not in text or "optimization_barrier" in text
    assert "count_leading_zeros" in graph.stablehlo(platform="tpu")
    expected = mx.reference(program)(x)
    np.testing.assert_array_equal(mx.jit(program)(x), expected)


def test_rules_apply_in_derivatives_and_imported_programs():
    def loss(x):
        return (x * (ops.convert_element_type(clz_of_constant(), np.float32))).sum()

    x = np.float32([1, 2])
    np.testing.assert_array_equal(mx.jit(mx.grad(loss))(x), [0, 29])
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), [0, 29])
    imported = mx.import_stablehlo(mx.make_graph(clz_of_constant)(np.int32(0)).stablehlo())
    np.testing.assert_array_equal(imported(np.int32(0)), [0, 29])


def test_a_program_without_rules_stays_the_same():
    graph = mx.make_graph(lambda x: mnp.tanh(x @ x).sum())(np.ones((3, 3), np.float32))
    assert legalized(graph, CPU) is graph


@pytest.mark.parametrize("kind", ELEMENT_TYPES)
def test_constants_and_arguments_of_every_type_stay(kind):
    array = np.array([1, 0, 1]).astype(ELEMENT_TYPES[kind].dtype)
    graph = mx.make_graph(lambda x: (ops.constant(array), ops.rev(x, (0,))))(array)
    assert legalized(graph, CPU) is graph


@pytest.mark.parametrize("kind", ELEMENT_TYPES)
def test_a_constant_of_every_type_is_passed_to_a_call(kind):
    number = np.ones((), ELEMENT_TYPES[kind].dtype)
    graph = mx.make_graph(lambda: mx.jit(lambda x: ops.broadcast(x, (2,)))(ops.constant(number)))()
    assert legalized(graph, CPU) is graph


def test_programs_of_many_calls_take_time_linear_in_their_length():
    def twice(function):
        jitted = mx.jit(function)
        return lambda x: jitted(jitted(x))

    function = clz_of_constant
    for _ in range(24):  # 2**24 calls
        function = twice(function)
    graph = mx.make_graph(function)(CONSTANT)
    assert legalized(graph, CPU) is not graph


def test_calls_with_zeros_of_both_signs_have_their_own_results():
    sign = mx.jit(ops.sign)
    zeros = [np.float32(0.0), np.float32(-0.0)]
    found = mx.jit(lambda: [sign(ops.constant(each)) for each in zeros])()
    assert list(map(np.signbit, found)) == [False, True]


def test_reducers_stay_as_they_are():
    def add_booleans(a, b):
        return ops.add(a, b)

    graph = mx.make_graph(lambda x: ops.reduce(x, np.False_, add_booleans, (0,)))(np.ones(3, bool))
    assert legalized(graph, CPU) is graph


def size_of_square(x):
    return ops.abs(ops.mul(x, x))


def test_a_rule_is_not_applied_to_its_own_result():
    graph = mx.make_graph(size_of_square)(np.int8(12))
    once = legalized(graph, CPU)
    names = [step.op.name for step in once.instructions]
    assert names == ["Mul", "OptimizationBarrier", "Abs"]
    assert legalized(once, CPU) is once


def test_other_rules_are_applied_to_the_result_of_a_rule():
    # The loop of the power multiplies squares; its unsigned counter is carried as a signed number.
    graph = mx.make_graph(ops.pow)(*[np.array([3], np.uint32)] * 2)
    text = graph.stablehlo(platform="cpu")
    assert "stablehlo.while" in text
    assert "power" not in text


def test_instructions_of_a_rule_have_the_line_of_the_user():
    graph = legalized(mx.make_graph(size_of_square)(np.int8(12)), CPU)
    assert len({step.source.line for step in graph.instructions}) == 1


def test_constants_with_known_numbers_are_folded_by_the_reference():
    graph = legalized(mx.make_graph(lambda: ops.clz(ops.constant(CONSTANT)))(), CPU)
    (only,) = graph.instructions
    np.testing.assert_array_equal(only.op.literal.array, [0, 29])


def test_the_text_for_a_platform():
    graph = mx.make_graph(clz_of_constant)(np.int32(0))
    assert graph.stablehlo(platform="gpu") == graph.stablehlo(platform="cuda")
    with pytest.raises(mx.AttributeValueError, match="unknown platform 'abacus'"):
        graph.stablehlo(platform="abacus")


def test_disabled_rules_are_part_of_the_key_of_compiled_programs():
    jitted = mx.jit(clz_of_constant)
    for _ in range(2):
        np.testing.assert_array_equal(jitted(np.int32(0)), [0, 29])
        with disabled("cpu", "leading_zeros"):
            assert jitted(np.int32(0))[0] < 0
        with disabled("cpu", "counted_loops"):
            np.testing.assert_array_equal(jitted(np.int32(0)), [0, 29])
    power = [np.array([3], np.uint8), np.array([200], np.uint8)]
    for _ in range(2):  # outside programs
        assert ops.pow(*power)[0] == 161
        with disabled("cpu"):
            assert ops.pow(*power)[0] != 161


def test_rules_are_switched_off_by_name_function_or_list():
    by_name = rules_of("cpu")
    rule = by_name["leading_zeros"]
    for given in ("leading_zeros", rule.replace, ["leading_zeros", "total_order"], None):
        with disabled("cpu", given):
            by_type = active_rules("cpu").get(operation_named("Clz"), {})
            assert ELEMENT_TYPES["s32"] not in by_type
    with pytest.raises(mx.AttributeValueError, match="cpu has no rule 'none_such'"):
        disabled("cpu", "none_such").__enter__()
    with pytest.raises(mx.AttributeValueError, match="unknown platform 'abacus'"):
        disabled("abacus").__enter__()
    with disabled("tpu"):  # a platform without rules
        pass


def test_a_rule_for_another_platform():
    seen = []

    def when(operation, operands, target):
        seen.append(target[:3])
        return operands[0].instruction is not None and operands[0].instruction.op.name == "Neg"

    @legalize(operation_named("Tan"), "rocm", when=when)
    def tangent_by_quotient(operation, operands, target):
        return ops.sin(*operands) / ops.cos(*operands)

    graph = mx.make_graph(lambda x: ops.tan(ops.neg(x)) + ops.tan(x))(np.float32(1))
    text = graph.stablehlo(platform="rocm")
    assert text.count("stablehlo.tan") == 1
    assert text.count("stablehlo.sine") == 1
    assert seen == [("rocm", 1, False)] * len(seen)
    with pytest.raises(ValueError, match="has a rule named tangent_by_quotient"):
        legalize(operation_named("Cos"), "rocm", when=when)(tangent_by_quotient)


def test_exported_programs_get_the_rules_of_their_one_platform():
    x = np.int32(0)
    for platforms, has_rules in ((("cpu",), True), (("tpu",), False), (("cpu", "tpu"), False)):
        written = mx.export(clz_of_constant, x, platforms=platforms)
        text = mx.import_stablehlo(written).graph.stablehlo()
        assert ("count_leading_zeros" not in text) == has_rules, platforms


def test_nothing_outlives_the_graph():
    graph = mx.make_graph(clz_of_constant)(np.int32(0))
    found = weakref.ref(legalized(graph, CPU))
    assert found() is not None
    del graph
    gc.collect()
    assert found() is None


@pytest.fixture
def traced_tangents():
    """A rule for the tangent on a platform without such a rule; it is removed afterwards."""
    calls = []

    @legalize(operation_named("Tan"), "rocm")
    def counted_tangents(operation, operands, target):
        calls.append(operands[0].shape)
        return ops.sin(*operands) / ops.cos(*operands)

    yield calls
    registry._RULES["rocm"].pop("counted_tangents")
    registry._table.cache_clear()


def test_a_replacement_is_traced_once_for_equal_operations_and_shapes(traced_tangents):
    def program(x):
        return ops.tan(x) * ops.tan(-x) + ops.tan(x[:2]).sum()

    graph = mx.make_graph(program)(np.ones(3, "f4"))
    text = graph.stablehlo(platform="rocm")
    assert text.count("stablehlo.sine") == 3 and "stablehlo.tan" not in text
    # Instructions of the replacement have the line of what they replace.
    lines = {step.source.line for step in legalized(graph, Target("rocm")).instructions}
    assert lines == {step.source.line for step in graph.instructions}
    assert traced_tangents == [(3,), (2,)]


@pytest.mark.parametrize("reads_graph", [True, False])
def test_a_replacement_that_reads_constants(reads_graph):
    @legalize(operation_named("Pow"), "gpu", reads_graph=reads_graph)
    def powers_of_two(operation, operands, target):
        exponent = target.array(operands[1])
        is_square = exponent is not None and (exponent == 2).all()
        return operands[0] * operands[0] if is_square else operation(*operands)

    graph = mx.make_graph(lambda x: ops.pow(x, np.float32([2, 2])))(np.ones(2, "f4"))
    try:
        if reads_graph:
            assert "stablehlo.power" not in graph.stablehlo(platform="cuda")
        else:
            with pytest.raises(
                TransformError, match=r"(?s)powers_of_two reads constants.*reads_graph=True"
            ):
                graph.stablehlo(platform="gpu")
    finally:
        registry._RULES["cuda"].pop("powers_of_two")
        registry._table.cache_clear()
