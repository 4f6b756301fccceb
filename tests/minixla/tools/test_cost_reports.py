"""Reports of costs: of functions, and of what XLA compiled for a platform."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import minixla as mx
from minixla.core.errors import AttributeValueError, ShardingError
from minixla.engine import cross_compile
from minixla.tools.cost_reports import device_rows

X = np.ones((4, 4), np.float32)

TEXT = """HloModule jit_f, is_scheduled=true

%fused_computation (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  ROOT %tanh.1 = f32[4]{0} tanh(%param_0), backend_config={"window_config":{"estimated_cycles":"7"}}
}

%body (arg: (s32[], f32[4])) -> (s32[], f32[4]) {
  %arg = (s32[], f32[4]{0}) parameter(0)
  %gte = f32[4]{0} get-tuple-element(%arg), index=1
  %fusion.2 = f32[4]{0:T(128)} fusion(%gte), kind=kLoop, calls=%fused_computation, \
metadata={op_name="f" source_file="model.py" source_line=7}, \
backend_config={"window_config":{"estimated_cycles":"1500"}}
  ROOT %tuple = (s32[], f32[4]{0}) tuple(%gte, %fusion.2)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %copy-start = (f32[4]{0:S(1)}, f32[4]{0}, u32[]{:S(2)}) copy-start(%x)
  %copy-done = f32[4]{0:S(1)} copy-done(%copy-start)
  %all-reduce = f32[4]{0} all-reduce(%copy-done), replica_groups={}, to_apply=%add
  ROOT %out = f32[4]{0} fusion(%all-reduce), kind=kLoop, calls=%fused_computation, \
metadata={op_name="g" stack_frame_id=2}
}
"""
TABLES = """HloModule jit_f

FileNames
1 "train.py"
2 "library.py"

FunctionNames
1 "step"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=0 end_column=0}
2 {file_name_id=2 function_name_id=2 line=12 end_line=12 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

"""


def test_the_instructions_that_a_device_runs():
    assert [tuple(row) for row in device_rows(TABLES + TEXT)] == [
        ("fusion.2", "fusion", "f32[4]", 1500, "model.py:7"),
        ("copy-start", "copy-start", "(f32[4], f32[4], u32[])", None, ""),
        ("all-reduce", "all-reduce", "f32[4]", None, ""),
        ("out", "fusion", "f32[4]", None, "library.py:12"),
    ]


def test_the_report_of_a_platform(monkeypatch):
    numbers = {"flops": 5.0, "bytes": 32.0, "seconds": 2e-6}
    numbers |= {"arguments": 16.0, "results": 16.0, "temporary": 8.0, "peak": 40.0}
    asked = []

    def compiled(platform, exported):
        asked.append((str(platform), jax.export.deserialize(bytearray(exported)).fun_name))
        return cross_compile.Compiled(numbers, TEXT)

    monkeypatch.setattr(cross_compile, "compile_for", compiled)

    def model(x):
        return mx.numpy.tanh(x)

    for function in (model, mx.jit(model)):
        report = mx.cost(function, X, platform="tpu")
        assert report.platform == "tpu v5e:2x2"
        assert report.xla["seconds"] == 2e-6
        assert report.xla["cycles"] == 1500
        assert report.xla["seconds_by_cycles"] == 1e-6
        assert report.xla["seconds_by_bytes"] == 32 / 819e9
        assert report.device_rows[0].instruction == "fusion.2"
        text = str(report)
        assert "XLA's for a device of tpu v5e:2x2" in text
        assert "model.py:7" in text
        assert "temporary" in text
        assert "seconds_by_cycles" in text
    assert asked == [("tpu v5e:2x2", "model")] * 2


EIGHT = mx.sharding.Mesh(None, ("x", "y"), shape=(4, 2))
#: Functions of f32[8,16] for eight chips, twice as many as there are devices here; how the argument
#: and the result lie.
SHARDED = {
    "shard_map": (
        mx.shard_map(lambda x: mx.psum(x, "y"), mesh=EIGHT, in_specs=P("x", "y"), out_specs=P("x")),
        (P("x", "y"), P("x")),
    ),
    "pmap": (mx.pmap(lambda x: mx.psum(x, "i"), "i"), (P("devices"), P("devices"))),
    "pmap in a loop": (
        lambda x: mx.fori_loop(0, 3, lambda _, v: mx.pmap(lambda x: x * x)(v), x),
        (P("devices"), P("devices")),
    ),
    "constraint": (
        mx.jit(lambda x: mx.sharding.constrain(x + 1, P(None, "devices"))),
        (P(None, "devices"), P(None, "devices")),
    ),
}


@pytest.mark.parametrize("name", SHARDED)
def test_programs_with_meshes_are_for_all_chips(name, monkeypatch):
    sent = []

    def compiled(platform, exported):
        sent.append(jax.export.deserialize(bytearray(exported)))
        return cross_compile.Compiled({}, TEXT)

    monkeypatch.setattr(cross_compile, "compile_for", compiled)
    function, sides = SHARDED[name]
    report = mx.cost(function, jax.ShapeDtypeStruct((8, 16), np.float32), platform="tpu v5e:2x4")
    assert report.platform == "tpu v5e:2x4"
    (exported,) = sent
    assert exported.nr_devices == 8
    found = exported._in_named_shardings + exported._out_named_shardings
    for each, spec in zip(found, sides, strict=True):
        assert each.is_equivalent_to(jax.sharding.NamedSharding(each.mesh, spec), 2)


def test_programs_for_more_devices_do_not_run_here():
    function = mx.jit(SHARDED["shard_map"][0])
    with pytest.raises(ShardingError, match="a mesh needs 8 devices, but there are") as caught:
        function(np.ones((8, 16), np.float32))
    assert "test_cost_reports.py" in str(caught.value)


def test_the_report_of_this_machine():
    report = mx.cost(lambda x, *, y: x @ y, X, y=X)
    assert report.total.flops == report.xla["flops"] == 128
    assert report.platform == ""
    assert report.device_rows == ()


def test_a_platform_that_is_none():
    with pytest.raises(AttributeValueError, match="'abacus' is not a platform"):
        mx.cost(mx.numpy.tanh, X, platform="abacus")
