"""What stands beside XLA's translation of an HLO program, and how groups of a mesh are written."""

from __future__ import annotations

import pytest
from jax.extend.mlir import ir
from jax.interpreters.mlir import make_ir_context

from minixla.engine.readers import hlo_protos

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"


def module(body, tables=""):
    return f"HloModule m\n\n{tables}{ADD}\nENTRY main {{\n{body}\n}}\n"


def translated(text, stand_ins=None):
    return hlo_protos.translated(text, stand_ins or {"copy": "custom-call"})


def text_of(bytecode):
    with make_ir_context():
        return str(ir.Module.parse(bytecode))


def test_instructions_keep_names_opcodes_computations_and_places():
    tables = """FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

"""
    body = """  x = f32[2] parameter(0), metadata={op_name="g" source_file="b.py" source_line=7}
  z = f32[] constant(0)
  y = f32[2] copy(x), metadata={op_name="h" stack_frame_id=1}
  ROOT r = f32[] reduce(y, z), dimensions={0}, to_apply=add"""
    bytecode, found, _ = translated(module(body, tables))
    assert found["computations"] == ["add", "main"]
    assert found["entry"] == 1
    assert found["names"] == ["a", "b", "c", "x", "z", "y", "r"]
    assert found["opcodes"][3:] == ["parameter", "constant", "copy", "reduce"]
    assert found["owners"] == [0, 0, 0, 1, 1, 1, 1]
    assert found["places"] == [("b.py", "g", 7), ("a.py", "f", 12)]
    assert found["sources"] == [-1, -1, -1, 0, -1, 1, -1]
    assert found["callees"] == {6: [0]}
    text = text_of(bytecode)
    assert "func private @f.0" in text
    assert "stablehlo.custom_call @minixla" in text


# An instruction of x: f32[4,8], what stands for its opcode, the translation and the details.
STANDING = {
    "a custom call": (
        "f32[8,4]{0,1:T(2,4)} bitcast(x)",
        "custom-call",
        "custom_call @minixla(%arg0)",
        {"layouts": [([1, 0], []), ([0, 1], [[2, 4]])]},
    ),
    "of what has sizes": (
        "f32[1,2] dynamic-slice(x, i, i), dynamic_slice_sizes={1,2}",
        "custom-call",
        "custom_call @minixla(%arg0",
        {"slice_sizes": [1, 2]},
    ),
    "of what has flags": (
        "(f32[4,8], u32[], token[]) send(x, t), channel_id=3, is_host_transfer=true",
        "custom-call",
        "custom_call @minixla(%arg0",
        {"channel_id": 3, "is_host_transfer": True},
    ),
    "another opcode": (
        """(f32[4,8], f32[4,16]) all-gather-start(x), replica_groups={{0,1}}, dimensions={1},
        channel_id=2""",
        "all-gather",
        "all_gather_dim = 1",
        {"channel_id": 2, "dimensions": [1]},
    ),
    "the same opcode": (
        """f32[] call(z, z), to_apply=add, is_composite=true,
        frontend_attributes={composite.name="a.b"}""",
        "call",
        "call @f.0",
        {"frontend_attributes": {"composite.name": "a.b"}, "is_composite": True},
    ),
}


@pytest.mark.parametrize("name", STANDING)
def test_what_stands_for_an_opcode_leaves_its_fields_beside_the_program(name):
    instruction, stand_in, written, details = STANDING[name]
    opcode = instruction.split("(x")[0].split("(z")[0].split()[-1]
    given = "  x = f32[4,8] parameter(0)\ni = s32[] constant(1)\nz = f32[] constant(2)"
    body = f"{given}\nt = token[] after-all()\nROOT r = {instruction}"
    bytecode, found, _ = translated(module(body), {opcode: stand_in})
    assert written in text_of(bytecode)
    assert found["opcodes"][-1] == opcode
    assert list(found["details"]) == [len(found["names"]) - 1]
    beside = found["details"][len(found["names"]) - 1]
    assert {key: beside[key] for key in beside if key in details} == details
    assert beside.keys() - details.keys() <= {"frontend_attributes"}


# The mesh and the axes, and the groups.
MESHES = {
    "['a'=2,'b'=4] {'b'}": "[0, 1, 2, 3], [4, 5, 6, 7]",
    "['a'=2,'b'=4] {'a'}": "[0, 4], [1, 5], [2, 6], [3, 7]",
    "['a'=2,'b'=4] {'b','a'}": "[0, 4, 1, 5, 2, 6, 3, 7]",
    "['a'=2,'b'=4] {'b':(1)2}": "[0, 2], [1, 3], [4, 6], [5, 7]",
    "['a'=2,'b'=4] {'b':(2)2}": "[0, 1], [2, 3], [4, 5], [6, 7]",
    "['a'=2,'b'=4] {'a','b':(2)2}": "[0, 1, 4, 5], [2, 3, 6, 7]",
    "['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}": "[0, 2, 4, 6], [1, 3, 5, 7]",
    "['a'=2,'b'=2], device_ids=(3,1,0,2) {'b'}": "[3, 1], [0, 2]",
}


@pytest.mark.parametrize("mesh", MESHES)
def test_groups_along_axes_of_a_mesh_are_written_out(mesh):
    reduce = f"all-reduce(x), replica_groups=mesh{mesh}, to_apply=add"
    bytecode, *_ = translated(module(f"  x = f32[2] parameter(0)\n  ROOT r = f32[2] {reduce}"))
    assert f"replica_groups = dense<[{MESHES[mesh]}]>" in text_of(bytecode)


def test_negative_zero_keeps_its_sign_and_strings_stay():
    metadata = 'metadata={op_name="constant({...}), -0,"}'
    body = f"ROOT c = (f32[2], f32[]) constant(({{-0, 0}}, -0)), {metadata}"
    bytecode, found, _ = translated(module(body))
    text = text_of(bytecode)
    assert "dense<[-0.000000e+00, 0.000000e+00]>" in text
    assert "dense<-0.000000e+00>" in text
    assert not found["places"]


def test_what_xla_would_make_up_or_die_of_is_refused():
    with pytest.raises(RuntimeError, match=r"parsing 10:.*numbers are omitted inside a constant"):
        translated(module("ROOT c = (f32[2], f32[]) constant(({...}, 1))"))
    body = 'x = f32[2] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target="\\377"'
    with pytest.raises(UnicodeDecodeError):
        translated(module(body))
