"""Graphs printed as HLO and imported again."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import minixla as mx
import minixla_ops as ops
from minixla.core import Graph, Literal, Shape, hlo_text
from minixla.core.graph import Instruction, Value
from minixla.core.operation import REGISTRY
from minixla_ops.creation import Constant
from minixla_ops.evaluation import reference_graph
from tests.harness import graph_of
from tests.oracles import assert_same
from tests.programs.draft import Program, programs
from tests.programs.inexact import INEXACT, REAL, USUAL
from tests.programs.table import TABLE

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
EXAMPLES = settings.default.max_examples


def _is_stretched(step: Instruction) -> bool:
    (shape,), sizes = _shapes(step), step.op.out_dim_size
    dimensions = step.op.broadcast_dimensions
    return [sizes[at] for at in dimensions] != list(shape.dimensions)


def _has_unread_operand(step: Instruction) -> bool:
    branches = step.computations
    read = [{id(o) for each in b.instructions for o in each.operands} for b in branches]
    read = [found | set(map(id, b.outputs)) for found, b in zip(read, branches, strict=True)]
    rows = zip(*[b.inputs for b in branches], strict=True)
    return any(
        all(id(each) not in found for each, found in zip(row, read, strict=True)) for row in rows
    )


def _shapes(step: Instruction) -> list[Shape]:
    return [value.shape for value in step.operands]  # type: ignore[misc]  # arrays


def _of_integers(step: Instruction) -> bool:
    return not _shapes(step)[0].element_type.is_float


def _always(step: Instruction) -> bool:
    return True


#: When an instruction is printed as something else, and comes back as that.
OTHERWISE = {
    "Broadcast": _always,  # HLO has BroadcastInDim alone
    "BroadcastInDim": _is_stretched,  # a reshape stands before it
    # Operands that no branch reads are left out, one that is given twice is read once.
    "Conditional": lambda step: (
        _has_unread_operand(step) or len({*step.operands}) < len(step.operands)
    ),
    "Constant": lambda step: step.op.literal.is_splat and step.results[0].shape.rank,
    "GetTupleElement": _always,  # tuples are taken apart
    "Map": lambda step: step.op.static_count,  # it is a call
    "Pad": lambda step: not _shapes(step)[0].rank,  # it is a copy
    "RngBitGenerator": lambda step: step.op.output_shape.element_type.kind != "unsigned",
    "Select": lambda step: _shapes(step)[1].rank and not _shapes(step)[0].rank,
    "Tuple": _always,
    **{f"{name}TotalOrder": _of_integers for name in ("Eq", "Ne", "Ge", "Gt", "Le", "Lt")},
}


@pytest.fixture(scope="module", autouse=True)
def whole_constants():
    """Prints all numbers of constants, which `str(graph)` leaves out above 16, as XLA does."""
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        patch.setattr(hlo_text, "_ELIDED_ABOVE", 1 << 40)
        yield


def is_printed_otherwise(graph: Graph) -> bool:
    """Whether an instruction, or one of a program that is run, comes back as another."""
    pending = [graph]
    while pending:
        for step in pending.pop().instructions:
            if step.op.name in OTHERWISE and OTHERWISE[step.op.name](step):
                return True
            pending.extend(step.computations)
    return False


def check(program: Program) -> None:
    graph, inputs = program.graph, program.inputs
    back = mx.import_hlo(str(graph)).graph
    if not is_printed_otherwise(graph):
        assert back == graph
    # It is a fixed point in any case, and computes the same bits.
    assert mx.import_hlo(str(back)).graph == back
    for one, other in zip(
        reference_graph(back, inputs), reference_graph(graph, inputs), strict=True
    ):
        assert_same(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", TABLE)
def test_every_row(name):
    settings(max_examples=3, database=None, suppress_health_check=SLOW)(
        given(programs([TABLE[name]], 2))(check)
    )()


@settings(max_examples=2 * EXAMPLES, suppress_health_check=SLOW)
@given(programs(list(TABLE.values())))
def test_random_programs(program):
    check(program)


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(programs(list(INEXACT.values()), 12, REAL, USUAL))
def test_random_inexact_programs(program):
    check(program)


def test_derivatives_and_batches():
    def function(x, w):
        return ops.tanh(ops.dot_general(x, w, ((1,), (0,)), None))

    x, w = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)

    def loss(x, w):
        return mx.numpy.sum(mx.numpy.tanh(x @ w) ** 2)

    for transformed in (mx.grad(loss), mx.vmap(loss, (0, None)), mx.jacrev(loss)):
        check(Program(graph_of(transformed, [x, w]), [x, w], []))


# Instructions that only XLA's passes make, built as the import builds them.

S = Shape("f32", (2, 3))


def graph_with(name, operands, /, **attributes):
    """A graph of one instruction of the operation."""
    inputs = [Value(shape, None, index) for index, shape in enumerate(operands)]
    operation = REGISTRY[name]
    if operation.fields:
        operation, attributes = type(operation)(**attributes), {}
    results, attributes = operation.infer(tuple(operands), attributes)
    step = Instruction(operation, tuple(inputs), attributes, results, None)
    return Graph(inputs, [step], step.results)


def test_internal_instructions():
    body = graph_of(lambda x: [ops.neg(x), ops.sin(x)], [np.ones((2, 3), np.float32)])
    one = graph_of(ops.neg, [np.ones((2, 3), np.float32)])
    add = graph_of(ops.add, [np.float32(1), np.float32(2)])
    groups = {"replica_groups": ((0, 1), (2, 3))}
    for graph in (
        graph_with("Copy", [S]),
        graph_with("Domain", [S], entry="{replicated}", exit="{maximal device=0}"),
        graph_with("Fusion", [S], computation=body, kind="kInput"),
        graph_with("RngGetAndUpdateState", [], delta=3),
        graph_with("AllReduceStart", [S], computation=add, **groups),
        graph_with("AllReduce", [S, S], computation=add, **groups, channel_id=3),
        graph_with("AllGather", [S], all_gather_dimension=1, shard_count=2, **groups),
        graph_with("CollectiveBroadcast", [S], **groups),
        graph_with("CollectivePermute", [S], source_target_pairs=((0, 1), (1, 0))),
        graph_with("Call", [S], computation=one),
        graph_with("TopK", [S], k=2, largest=False),
        graph_with("ReplicaId", []),
        graph_with("Erf", [S], result_accuracy="HIGHEST"),
        graph_with("CustomCall", [S], target_name="x", shapes=(S,), has_side_effect=True,
                   options={"n": 3, "s": 'a"b', "f": np.float32(0.5), "t": True}),
    ):  # fmt: skip
        assert mx.import_hlo(str(graph)).graph == graph, str(graph)


def test_what_is_left_out_of_a_constant_is_missed():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hlo_text, "_ELIDED_ABOVE", 16)
        literal = Literal(np.arange(17, dtype=np.float32))
        step = Instruction(Constant(literal), (), {}, literal.shape, None)
        imported = mx.import_hlo(str(Graph([], [step], step.results)))
        assert str(imported.graph) == str(mx.import_hlo(str(imported.graph)).graph)
    with pytest.raises(mx.ImportError_, match="leaves out the numbers"):
        mx.reference(imported)()


def test_a_branch_whose_operand_only_a_tuple_reads():
    text = """HloModule m

branch {
  x = f32[2] parameter(0)
  unread = (f32[2]) tuple(x)
  ROOT c = f32[2] constant({1, 2})
}

ENTRY e {
  i = s32[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(i, x), branch_computations={branch}
}
"""
    back = mx.import_hlo(text).graph
    assert mx.import_hlo(str(back)).graph == back


def test_a_branch_that_reads_a_later_member_alone():
    text = """HloModule m

branch {
  t = (f32[2,2], f32[3], f32[2]) parameter(0)
  a = f32[2,2] get-tuple-element(t), index=0
  b = f32[2,2] abs(a)
  ROOT c = f32[2] get-tuple-element(t), index=2
}

ENTRY e {
  i = s32[] parameter(0)
  x = f32[2,2] parameter(1)
  y = f32[3] parameter(2)
  z = f32[2] parameter(3)
  t = (f32[2,2], f32[3], f32[2]) tuple(x, y, z)
  ROOT r = f32[2] conditional(i, t), branch_computations={branch}
}
"""
    back = mx.import_hlo(text).graph
    assert mx.import_hlo(str(back)).graph == back
