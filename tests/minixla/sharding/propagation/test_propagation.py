"""Propagation in whole programs gives what Shardy's gives."""

from __future__ import annotations

import time

import pytest

from benchmarks.sharding import network
from minixla.core.errors import ImportError_
from minixla.engine.shardy import shardy_pass
from minixla.interop.sharding_passes import read_program
from minixla.sharding.dead_steps import remove_dead_steps
from minixla.sharding.passes import PASSES
from tests.minixla.sharding.passes.annotated_programs import annotated_program
from tests.minixla.sharding.random_programs import RandomProgram
from tests.oracles.shardy_text import normal_form

PROPAGATION = {
    "sdy-basic-propagate": {},
    "sdy-aggressive-propagate": {},
    "sdy-op-priority-propagate": {},
    "sdy-user-priority-propagate": {},
    "sdy-basic-propagate, carefully": {"conservative_propagation": True},
    "sdy-user-priority-propagate, carefully": {"conservative_propagation": True},
    "sdy-aggressive-propagate, basic first": {"propagation_strategy": "basic-then-aggressive"},
    "sdy-user-priority-propagate, in one round": {"run_op_priority_propagation": False},
}
EXPORT = (
    "sdy-constant-or-scalar-merger",
    "sdy-sink-data-flow-edges",
    "sdy-remove-sharding-groups",
    "sdy-sharding-constraint-to-reshard",
    "sdy-update-non-divisible-input-output-shardings",
    "sdy-remove-sub-axes-in-input-output-shardings",
    "sdy-close-shardings",
    "sdy-insert-explicit-reshards",
)


def _imported(seed: int, steps: int) -> str:
    """A random program as the import passes leave it."""
    text = RandomProgram(seed, steps).text
    return shardy_pass(text, "sdy-import-pipeline{dedup-functions-fully=true}")


def _natively(name: str, text: str, **options: object) -> str:
    program = read_program(text)
    PASSES[name](program, **options)
    return str(program)


def _shardys(name: str, text: str, **options: object) -> str:
    said = " ".join(
        f"{key.replace('_', '-')}={str(value).lower()}" for key, value in options.items()
    )
    return shardy_pass(text, f"{name}{{{said}}}")


def _assert_same(own: str, shardys: str, seed: int) -> None:
    pairs = zip(normal_form(own).splitlines(), normal_form(shardys).splitlines(), strict=True)
    wrong = [
        f"{mine.strip()}\nShardy: {theirs.strip()}" for mine, theirs in pairs if mine != theirs
    ]
    assert not wrong, f"program {seed}:\n" + "\n".join(wrong)


@pytest.mark.drawn
@pytest.mark.parametrize("how", PROPAGATION)
def test_random_programs_are_sharded_as_by_shardy(how, request):
    is_full = request.config.getoption("full")
    for seed in range(len(how), len(how) + (64 if is_full else 4)):
        # Texts of ours, so that both engines read the same operations.
        text = str(read_program(_imported(seed, 40 if is_full and seed % 4 == 0 else 14)))
        name, options = how.partition(",")[0], PROPAGATION[how]
        _assert_same(_natively(name, text, **options), _shardys(name, text, **options), seed)


@pytest.mark.drawn
def test_what_comes_after_is_shardys(request):
    for seed in range(40 if request.config.getoption("full") else 2):
        text = shardy_pass(_imported(seed, 14), "sdy-user-priority-propagate")
        for name in EXPORT:
            text = str(read_program(text))
            left = shardy_pass(text, name)
            _assert_same(_natively(name, text), left, seed)
            text = left


@pytest.mark.drawn
@pytest.mark.parametrize("name", ["sdy-export-pipeline", "sdy-propagation-pipeline"])
def test_pipelines_leave_what_shardys_leave(name, request):
    for seed in range(60 if request.config.getoption("full") else 4):
        if name == "sdy-export-pipeline":
            text = shardy_pass(_imported(seed, 14), "sdy-user-priority-propagate")
        else:
            # The pipeline refuses programs with named computations.
            text = RandomProgram(seed, 14, has_named=False).text
        text = str(read_program(text))
        _assert_same(_natively(name, text), shardy_pass(text, name), seed)


@pytest.mark.drawn
def test_explicit_reshards_of_all_operations_are_shardys(request):
    for seed in range(512 if request.config.getoption("full") else 12):
        text = RandomProgram(seed, 1 + seed % 9, placed=0.9).text
        text = str(read_program(shardy_pass(text, "sdy-close-shardings")))
        name, options = "sdy-insert-explicit-reshards", {"enable_full_version": True}
        _assert_same(_natively(name, text, **options), _shardys(name, text, **options), seed)


@pytest.mark.drawn
@pytest.mark.parametrize("fully", [False, True], ids=["one for each layout", "one for all calls"])
def test_pipelines_leave_of_functions_what_shardys_leave(fully, request):
    compared = 0
    for seed in range(150 if request.config.getoption("full") else 12):
        program = read_program(annotated_program(seed, has_named=False))
        PASSES["symbol-dce"](program)
        remove_dead_steps(program)
        text, name = str(program), "sdy-propagation-pipeline"
        options = {"dedup_functions_fully": fully}
        try:
            left = _shardys(name, text, **options)
        except ImportError_:  # constraints that contradict each other, manual axes twice
            continue
        _assert_same(_natively(name, text, **options), left, seed)
        compared += 1
    assert compared > 8


_CHAIN = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(
    %x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %y: tensor<4x4xf32>)
    -> tensor<4x4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4x4xf32>
  %1 = stablehlo.optimization_barrier %0 : tensor<4x4xf32>
  %2 = func.call @f(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = sdy.sharding_constraint %x <@mesh, [{}, {"b"}]> : tensor<4x4xf32>
  %4 = "stablehlo.collective_permute"(%y) <{
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>
  }> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %x : tensor<4x4xf32>
}
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
"""


def test_nothing_passes_through_what_nobody_reads():
    text = str(read_program(_CHAIN))
    own = _natively("sdy-user-priority-propagate", text)
    _assert_same(own, shardy_pass(text, "sdy-user-priority-propagate"), 0)
    assert "stablehlo.add" not in own and "optimization_barrier" not in own
    assert "@f(" in own and "collective_permute" in own
    assert "sdy.sharding_constraint" in own


_CALLS = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(
    %x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>},
    %z: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>})
    -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = func.call @f(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = func.call @f(%z) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = func.call @f(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.tanh %x : tensor<4x4xf32>
  %1 = func.call @h(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func private @h(%x: tensor<4x4xf32>SAID) -> tensor<4x4xf32> {
  %0 = stablehlo.abs %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""


@pytest.mark.parametrize(
    "said", ["", ' {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"a", ?}]>}'], ids=["plain", "placed"]
)
def test_each_call_has_the_function_of_its_layout(said):
    text = str(read_program(_CALLS.replace("SAID", said)))
    own = _natively("sdy-propagation-pipeline", text)
    _assert_same(own, shardy_pass(text, "sdy-propagation-pipeline"), 0)
    assert "@f_1" in own


@pytest.mark.full
def test_thirty_thousand_instructions_take_less_than_ten_seconds():
    program = read_program(network(3000))
    start = time.perf_counter()
    PASSES["sdy-user-priority-propagate"](program)
    assert time.perf_counter() - start < 10
    assert all(value.sharding is not None for step in program.main.steps for value in step.results)


def test_visits_whose_outcome_is_known_are_not_worked_out_again(monkeypatch):
    from minixla.sharding.propagation import driver

    worked_out = []
    step = driver.Driver._step

    def counted(self, *given):
        worked_out.append(given)
        return step(self, *given)

    monkeypatch.setattr(driver.Driver, "_step", counted)
    counts = []
    for layers in (4, 40):
        worked_out.clear()
        PASSES["sdy-user-priority-propagate"](read_program(network(layers)))
        counts.append(len(worked_out))
    assert counts[0] == counts[1] > 0
