"""Threefry2x32, the operation: known answers, XLA, batches, layouts."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
from minixla import ops
from minixla.core.errors import ShapeError
from minixla.engine.platform_text import PlatformEmitter
from minixla.legalize import Target
from minixla_ops.random.threefry import Threefry2x32
from tests.harness import check_batching, check_operation, check_rejected

# Key, block and result. Source: kat_vectors of Random123, threefry2x32 of 20 rounds.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
OPERANDS = [
    np.array(each, np.uint32) for each in zip(*[(*k, *b) for k, b, _ in KNOWN], strict=True)
]
RESULTS = [
    np.array(each, np.uint32) for each in zip(*[found for _, _, found in KNOWN], strict=True)
]


@pytest.mark.parametrize("is_loop", [False, True])
def test_known_answers(is_loop):
    cipher = lambda *given: ops.threefry2x32(*given, is_loop=is_loop)  # noqa: E731
    for found in (cipher(*OPERANDS), mx.reference(cipher)(*OPERANDS)):
        np.testing.assert_array_equal(found, RESULTS)
    text = mx.make_graph(cipher)(*OPERANDS).stablehlo()
    assert ("stablehlo.while" in text) is is_loop


def test_the_reference_of_numbers_overflows_as_quietly_as_that_of_arrays():
    key, block, found = KNOWN[1]
    with np.errstate(all="raise"):
        words = Threefry2x32().reference(*[np.uint32(each) for each in (*key, *block)])
    assert words == found


def test_oracles_agree():
    check_operation(ops.threefry2x32, OPERANDS)


def test_batches():
    check_batching(ops.threefry2x32, OPERANDS, batched=(0, 3))
    rows = [np.stack([each, each + np.uint32(1)]) for each in OPERANDS[2:]]
    found = mx.vmap(ops.threefry2x32, (None, None, 0, 0))(*OPERANDS[:2], *rows)
    np.testing.assert_array_equal(found[0][0], RESULTS[0])


def test_it_is_one_instruction_and_one_function():
    graph = mx.make_graph(lambda k, n: ops.threefry2x32(*ops.threefry2x32(k, k, n, n), n, n))
    graph = graph(*OPERANDS[:2])
    assert [step.op.name for step in graph.instructions] == ["Threefry2x32"] * 2
    assert graph.stablehlo().count("func.func private") == 1


def test_keys_stand_apart_on_one_cpu():
    graph = mx.make_graph(lambda *given: ops.threefry2x32(*given, of_keys=True))(*OPERANDS)
    plain = mx.make_graph(ops.threefry2x32)(*OPERANDS)

    def is_apart(program, platform, devices):
        text = PlatformEmitter(Target(platform, devices)).module(program)
        return 'inlineable = "false"' in text

    cases = [(graph, "cpu", 1), (graph, "cpu", 2), (graph, "tpu", 1), (plain, "cpu", 1)]
    assert [is_apart(*each) for each in cases] == [True, False, False, False]
    found = mx.jit(lambda *given: ops.threefry2x32(*given, of_keys=True))(*OPERANDS)
    np.testing.assert_array_equal(found, RESULTS)


def test_every_dimension_may_be_cut():
    rule = Threefry2x32().sharding_rule(*[mx.Shape("u32", (4, 2))] * 4)
    assert str(rule).startswith("([i, j], [i, j], [i, j], [i, j])->([i, j], [i, j])")


@pytest.mark.parametrize(("label", "operands"), [
    ("C1", [OPERANDS[0][:2], *OPERANDS[1:]]), ("C2", [each.view(np.int32) for each in OPERANDS]),
])  # fmt: skip
def test_rejected(label, operands):
    check_rejected(lambda *given: ops.threefry2x32(*given), operands, ShapeError, f"({label})")
