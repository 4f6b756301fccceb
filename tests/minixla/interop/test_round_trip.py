"""What graph.stablehlo() writes is read back as the same graph, over all kinds of programs."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import minixla as mx
from benchmarks.models import MINIXLA, models
from minixla.core.tracing import evaluate_graph
from tests.minixla.transforms.collective_programs import PROGRAMS as COLLECTIVES
from tests.minixla.transforms.collective_programs import Y, both
from tests.minixla.transforms.composition_flow import FLOW
from tests.minixla.transforms.composition_programs import OPERATIONS
from tests.oracles import assert_same
from tests.programs.draft import programs
from tests.programs.inexact import INEXACT
from tests.programs.table import TABLE

EXAMPLES = settings.default.max_examples
KINDS = ("f32", "s32", "f64", "bf16", "pred", "c64")
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

_REASONS = {
    "where it gives its operand, there is no instruction": "real",
    "XLA has none of complex numbers: its text computes them from the parts": "max min",
    "XLA does not convolve complex numbers: its text convolves the parts": """
        conv conv_general conv_general_dilated conv_with_general_dimensions
        conv_with_general_padding convert_element_type""",
    "of integers the total order is the order, and StableHLO writes that": """
        compare eq_total_order ge_total_order gt_total_order le_total_order lt_total_order
        ne_total_order""",
    "its text is a program that XLA runs faster, more exactly, or at all": """
        batch_norm_grad batch_norm_inference batch_norm_training cosh map ragged_dot scaled_dot
        scan select_and_scatter top_k""",
    "XLA leaves the other triangle undefined: its text clears it": "cholesky",
    "XLA writes windows that reach out of bounds partly: its text pads": "scatter",
    "its text is always stable, so that evaluators agree": "sort",
    "states of random bits are u64 there": "rng_bit_generator",
    "its text captures what branches read, each value once": "conditional",
    "its program may hold any of these": "call composite_call while_",
    "its text is the program that it is": """
        gap_quotient lu_solve lyapunov_solve qr softmax threefry2x32""",
    "its text leaves empty operands out": "concat_in_dim",
    "of matrices without elements its text has constants": """
        eig eigh geqrf householder_product lu svd""",
}
#: Why the text of a builder's operation may be that of others.
REWRITTEN = {name: reason for reason, names in _REASONS.items() for name in names.split()}
EXACT = [row for row in [*TABLE.values(), *INEXACT.values()] if row.name not in REWRITTEN]


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


def read_back(graph):
    return mx.import_stablehlo(graph.stablehlo()).graph


def check_same(graph):
    assert read_back(graph) == graph


@settings(max_examples=4 * EXAMPLES, suppress_health_check=SLOW)
@given(programs(EXACT, kinds=KINDS))
def test_random_programs(program):
    check_same(program.graph)


def evaluated(graph, inputs):
    with np.errstate(all="ignore"):
        return mx.reference(lambda *xs: evaluate_graph(graph, xs))(*inputs)


def check_meaning(program):
    graph = read_back(program.graph)
    assert graph.input_shapes == program.graph.input_shapes
    found = evaluated(graph, program.inputs)
    for actual, expected in zip(found, program.outputs, strict=True):
        assert_same(actual, expected, name="what was read back against what was written")


@settings(max_examples=3 * EXAMPLES, suppress_health_check=SLOW)
@given(programs(list(TABLE.values()), 12))
def test_all_random_programs_mean_the_same(program):
    check_meaning(program)


@pytest.mark.drawn
@pytest.mark.parametrize("name", [name for name in REWRITTEN if name in TABLE])
def test_a_rewritten_operation_means_the_same(name):
    read = []

    @settings(max_examples=max(4, EXAMPLES // 6), suppress_health_check=SLOW)
    @given(programs([TABLE[name]], 2, kinds=KINDS))
    def check(program):
        check_meaning(program)
        read.append(program)

    check()
    assert read


# A mapped function is several programs: see test_collectives.
NAMES = [name for name in (*OPERATIONS, *FLOW) if name != "pmap inside"]
VECTOR = np.array([0.3, -0.7, 1.1, 0.2])
BATCH = np.stack([VECTOR, VECTOR / 2])


@pytest.mark.parametrize("name", NAMES)
def test_programs_and_their_derivatives(name):
    program = (OPERATIONS | FLOW)[name].ours
    gradient = mx.grad(lambda x: mx.numpy.sum(program(x)))
    for function, x in [(program, VECTOR), (gradient, VECTOR), (mx.vmap(program), BATCH)]:
        check_function(function, x)


def check_function(function, *arguments):
    """Reads back the same graph; where the text is that of other operations, one that does it."""
    graph = mx.make_graph(function)(*arguments)
    again = read_back(graph)
    if again != graph:
        leaves = jax.tree.leaves(arguments)
        pairs = zip(evaluated(again, leaves), evaluated(graph, leaves), strict=True)
        for actual, expected in pairs:
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("model", models(small=True), ids=lambda model: model.name)
def test_training_steps_of_networks(model):
    step = MINIXLA.value_and_grad(model.loss(MINIXLA))
    check_function(step, model.parameters, *model.batch)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_over_devices(name):
    ours, _ = both(name)
    graph = mx.make_graph(mx.pmap(ours, "i"))(Y)
    members = [each for step in graph.instructions for each in step.op.computations]
    assert members
    for each in members:
        check_same(each)
