"""Random programs: the reference, StableHLO's interpreter and XLA agree on them."""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minixla as mx
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from minixla.core.tracing import evaluate_graph
from tests.harness import QUICKLY, check_batching, check_derivatives, together
from tests.oracles import assert_same, run_stablehlo, run_xla
from tests.programs.array_rows import EXACT, ROUNDING
from tests.programs.domains import ANY, KINDS, Domain
from tests.programs.draft import Program, programs
from tests.programs.inexact import INEXACT, REAL, USUAL, assert_within
from tests.programs.inexact import INTERPRETED as INEXACT_INTERPRETED
from tests.programs.table import EXCLUDED, INTERPRETED, TABLE, Row

# What the profile says; programs are large, and each is compiled.
EXAMPLES = settings.default.max_examples
IS_LONG = EXAMPLES > 100
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
#: Rows of operations and of functions of the array library.
ALL_EXACT = [*TABLE.values(), *EXACT.values()]
ALL_ROUNDING = [*INEXACT.values(), *ROUNDING.values()]


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


def as_function(program: Program):
    return lambda *xs: evaluate_graph(program.graph, xs)


def by_xla(program: Program) -> list[np.ndarray]:
    """The results of `mx.jit`."""
    if IS_LONG:  # a program that kills XLA kills a worker, which reports it
        run_xla(program.graph.stablehlo("cpu"), program.inputs)
    options = None if IS_LONG else QUICKLY
    if "f8E" in program.graph.stablehlo():
        # XLA makes iota of constants such as {0, 2}; compiled without these, that dies in LLVM.
        options = {"xla_cpu_use_fusion_emitters": True}
    compiled = mx.jit(as_function(program), compiler_options=options)
    return [np.asarray(each) for each in compiled(*program.inputs)]


def check_exact(
    program: Program, interpreted: bool = True, compiled: Sequence[np.ndarray] | None = None
) -> None:
    if not program.outputs:
        return
    compiled = by_xla(program) if compiled is None else compiled
    for expected, actual in zip(program.outputs, compiled, strict=True):
        assert_same(actual, expected, name="XLA against the reference")
    if interpreted:
        found = run_stablehlo(program.graph.stablehlo(), program.inputs)
        for expected, actual in zip(program.outputs, found, strict=True):
            assert_same(actual, expected, name="the interpreter against the reference")


@settings(max_examples=2 * EXAMPLES if IS_LONG else 20, suppress_health_check=SLOW)
@given(programs([*INTERPRETED, *[row for row in EXACT.values() if row.interpreted]]))
def test_exact_programs(program):
    check_exact(program)


@settings(max_examples=EXAMPLES // 2, suppress_health_check=SLOW)
@given(programs(ALL_EXACT, 20))
def test_exact_programs_that_the_interpreter_does_not_run(program):
    check_exact(program, interpreted=False)


@settings(max_examples=EXAMPLES // 2, suppress_health_check=SLOW)
@given(programs(INEXACT_INTERPRETED, 12, REAL, USUAL))
def test_inexact_programs(program):
    """Each result is within the bound that `inexact.bounds` derives in double."""
    if program.outputs:
        graph, inputs = program.graph, program.inputs
        assert_within(program.outputs, graph, inputs, "reference")
        assert_within(by_xla(program), graph, inputs, "XLA")
        assert_within(run_stablehlo(graph.stablehlo(), inputs), graph, inputs, "interpreter")


@settings(max_examples=EXAMPLES // 2, suppress_health_check=SLOW)
@given(programs(ALL_ROUNDING, 12, REAL, USUAL))
def test_inexact_programs_that_the_interpreter_does_not_run(program):
    if program.outputs:
        assert_within(program.outputs, program.graph, program.inputs, "reference")
        assert_within(by_xla(program), program.graph, program.inputs, "XLA")


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(programs(ALL_ROUNDING, 8, ("f64", "c128"), USUAL))
def test_derivatives(program):
    """<ct, J t> = <J^T ct, t>, and J t is a finite difference.

    The difference's error is step**2 / 6 times a third derivative, which programs of a few
    functions on [-8, 8] make as large as 1e5 times their values.
    """
    if program.outputs and program.inputs:
        check_derivatives(as_function(program), program.inputs, order=1, rtol=1e-4, atol=1e-4)


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(programs(ALL_ROUNDING, 8, ("f64", "c128"), USUAL), st.data())
def test_batches_of_inexact_programs(program, data):
    check_batches(program, data)


KINDS_TO_BATCH = ("s32", "pred", "f64", "u8", "c128")


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(programs(ALL_EXACT, 12, KINDS_TO_BATCH), st.data())
def test_batches_of_exact_programs(program, data):
    check_batches(program, data)


def check_batches(program: Program, data) -> None:
    """vmap is a loop; two of the inputs are batched, together and each alone."""
    if program.outputs and program.inputs:
        numbers = st.integers(0, len(program.inputs) - 1)
        batched = data.draw(st.lists(numbers, min_size=1, max_size=2, unique=True))
        check_batching(as_function(program), program.inputs, size=2, batched=batched)


#: What these rows make is no result by itself: larger programs use it.
FOR_OTHERS = ("after_all", "create_token", "parameter", "tuple")


@functools.cache
def programs_of(row: Row, kinds: Sequence[str] = KINDS, domain: Domain = ANY) -> list[Program]:
    """Small programs of one row, whatever the large ones happened to draw."""
    found = []

    @settings(max_examples=2, database=None, suppress_health_check=SLOW)
    @given(programs([row], 2, kinds, domain))
    def keep(program):
        found.append(program)

    keep()
    return found


@functools.cache
def rows_by_xla() -> dict[tuple[str, int], Any]:
    """What XLA gives for them, in one program; in a long run each is compiled as users' are."""
    wanted: dict[tuple[str, int], Program] = {}
    for name in TABLE if not IS_LONG else ():
        with contextlib.suppress(Exception):  # the row's own test raises it
            wanted |= {(name, at): each for at, each in enumerate(programs_of(TABLE[name]))}
    return together(
        functools.partial(mx.jit, compiler_options=QUICKLY),
        {key: as_function(program) for key, program in wanted.items() if program.outputs},
        {key: program.inputs for key, program in wanted.items()},
    )


@pytest.mark.parametrize("name", TABLE)
def test_every_row(name):
    drawn = programs_of(TABLE[name])
    if not IS_LONG:  # where the draws are always the same
        assert name in FOR_OTHERS or any(program.outputs for program in drawn)
    for at, program in enumerate(drawn):
        check_exact(program, TABLE[name].interpreted, rows_by_xla().get((name, at)))


@pytest.mark.full
@pytest.mark.parametrize("name", EXACT)
def test_every_function_of_whole_numbers(name):
    for program in programs_of(EXACT[name]):
        check_exact(program, EXACT[name].interpreted)
        if program.inputs:  # not of constants alone
            check_batching(as_function(program), program.inputs, size=2, batched=[0])


@pytest.mark.full
@pytest.mark.parametrize("name", ROUNDING)
def test_every_function_that_rounds(name):
    for program in programs_of(ROUNDING[name], ("f64", "c128"), USUAL):
        assert_within(by_xla(program), program.graph, program.inputs, "XLA")
        if program.inputs:
            check_derivatives(as_function(program), program.inputs, order=1, rtol=1e-4, atol=1e-4)
            check_batching(as_function(program), program.inputs, size=2, batched=[0])


def test_every_builder_has_a_row_or_a_reason():
    builders = {name for name in ops.__all__ if name[0].islower()}
    assert TABLE.keys() | EXCLUDED.keys() == builders
    assert not TABLE.keys() & EXCLUDED.keys()
    rounding = {name for name, reason in EXCLUDED.items() if "inexact" in reason}
    assert rounding == INEXACT.keys() - TABLE.keys()


def test_every_operation_is_in_some_program():
    drawn = {"Parameter"}  # whose builder records another

    def note(program):
        drawn.update(instruction.op.name for instruction in program.graph.instructions)

    for row in (*INEXACT.values(), *TABLE.values()):
        draws = given(programs([row], 3))(note)
        settings(max_examples=3, database=None, suppress_health_check=SLOW)(draws)()
    operations = [each for each in REGISTRY.values() if hasattr(ops, each.builder_name)]
    entries = {each.name: each for each in operations if each.__module__.startswith("minixla_ops.")}
    excluded = EXCLUDED.keys() - INEXACT.keys()
    without = {name for name, each in entries.items() if each.builder_name in excluded}
    assert entries.keys() - drawn - without == set()
