"""Replica groups along mesh axes become the same lists as in XLA."""

from __future__ import annotations

import numpy as np
import pytest
from jaxlib import _jax  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx

_AXES = {"x": 2, "y": 4, "z": 1}
_IDS = [7, 6, 5, 4, 3, 2, 1, 0]


def _mesh(axes: dict[str, int], ids: list[int] | None = None) -> str:
    listed = ", ".join(f'#stablehlo.mesh_axis<name = "{n}", size = {s}>' for n, s in axes.items())
    order = "" if ids is None else f", device_ids = dense<{ids}> : tensor<{len(ids)}xi64>"
    return f"#stablehlo.mesh<axes = [{listed}]{order}>"


def _along(*axes: str, mesh: str = "") -> str:
    """Write a group attribute; axes are `y`, or parts of axes such as `y:(1)2`."""
    listed = []
    for name, _, part in (each.partition(":") for each in axes):
        info = f", sub_axis_info = {part}" if part else ""
        listed.append(f'#stablehlo.axis_ref<name = "{name}"{info}>')
    mesh = mesh or _mesh(_AXES)
    return f"#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [{', '.join(listed)}]>"


#: The attribute and its groups.
GROUPS = {
    "the last axis but one": (_along("y"), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    "the first axis": (_along("x"), [[0, 4], [1, 5], [2, 6], [3, 7]]),
    "an axis of size 1": (_along("z"), [[each] for each in range(8)]),
    "no axis": (_along(), [[each] for each in range(8)]),
    "all axes": (_along("x", "y", "z"), [[*range(8)]]),
    "axes in another order": (_along("y", "x"), [[0, 4, 1, 5, 2, 6, 3, 7]]),
    "the major part": (_along("y:(1)2"), [[0, 2], [1, 3], [4, 6], [5, 7]]),
    "the minor part": (_along("y:(2)2"), [[0, 1], [2, 3], [4, 5], [6, 7]]),
    "a part and an axis": (_along("x", "y:(2)2"), [[0, 1, 4, 5], [2, 3, 6, 7]]),
    "devices in another order": (
        _along("y", mesh=_mesh(_AXES, _IDS)),
        [[7, 6, 5, 4], [3, 2, 1, 0]],
    ),
    "a mesh of the module": (_along("y", mesh="@mesh"), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    "a mesh with a name in quotes": (_along("a b", mesh='@"m n"'), [[1, 0]]),
    "names to be escaped": (
        _along("é\\22>]", mesh=_mesh({"é\\22>]": 2})),
        [[0, 1]],
    ),
}
_MESHES = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\nsdy.mesh @"m n" = <["a b"=2], device_ids=[1, 0]>\n'
_F32 = "tensor<{}xf32>"
_REGION = """({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  })"""
#: For each collective: its region, other attributes, and the result size for a group size.
COLLECTIVES = {
    "all_reduce": (_REGION, "", lambda n: 840),
    "all_gather": ("", "all_gather_dim = 0 : i64, ", lambda n: 840 * n),
    "reduce_scatter": (_REGION, "scatter_dimension = 0 : i64, ", lambda n: 840 // n),
    "all_to_all": (
        "",
        "concat_dimension = 0 : i64, split_dimension = 0 : i64, split_count = {n} : i64, ",
        lambda n: 840,
    ),
    "collective_broadcast": ("", "", lambda n: 840),
}
_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "


def _program(name: str, written: str, size: int, channel: str = _CHANNEL) -> str:
    region, others, result = COLLECTIVES[name]
    given, made = _F32.format(840), _F32.format(result(size))
    attributes = f"{others.format(n=size)}{channel}replica_groups = {written}"
    region = f"({region[1:-1]})" if region else ""
    return (
        f"{_MESHES}func.func @main(%a: {given}) -> {made} {{\n"
        f'  %0 = "stablehlo.{name}"(%a) {region} {{{attributes}}} : ({given}) -> {made}\n'
        f"  return %0 : {made}\n}}"
    )


def _groups(graph: mx.Graph) -> list[list[int]]:
    (groups,) = [
        step.op.replica_groups for step in graph.instructions if "replica_groups" in step.op.fields
    ]
    return [list(each) for each in groups]


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("written, groups", GROUPS.values(), ids=GROUPS)
def test_collectives(name, written, groups):
    program = mx.import_stablehlo(_program(name, written, len(groups[0])))
    assert _groups(program.graph) == groups
    again = mx.import_stablehlo(program.graph.stablehlo())
    assert again.graph == program.graph


# XLA's translation does not support mesh names and groups of one, loses the order of devices, and
# crashes on names with escapes.
_OF_XLA = {
    name: row
    for name, row in GROUPS.items()
    if not any(each in row[0] for each in ("@", "axes = []", '"z">]>', "device_ids", "\\"))
}


@pytest.mark.parametrize("written, groups", _OF_XLA.values(), ids=_OF_XLA)
def test_groups_are_those_of_xla(written, groups):
    """Translate with XLA to HLO, whose notation the HLO reader expands."""
    text = _program("all_reduce", written, len(groups[0])).replace(_MESHES, "")
    hlo = _jax.mlir.mlir_module_to_xla_computation(text).as_hlo_text()
    assert "mesh[" in hlo
    assert _groups(mx.import_hlo(hlo).graph) == groups


def test_what_they_compute():
    written, groups = GROUPS["the minor part"]
    program = mx.import_stablehlo(_program("all_reduce", written, 2, channel=""))
    values = [np.full(840, each, np.float32) for each in range(8)]
    found = mx.simulate(program, [[(each,)] for each in values])
    for group in groups:
        for member in group:
            np.testing.assert_array_equal(found[member][0], sum(values[each] for each in group))


_WRONG = {
    "a mesh that is too large": (_along("x", mesh=_mesh({"x": 1 << 40})), "has a mesh of 10995"),
    "a part that does not divide": (_along("y:(3)2"), r"part \(3\)2 of axis 'y'|sub.?axis"),
    "an unknown mesh": (_along("x", mesh="@other"), "'other' not found"),
    "an unknown axis": (_along("q"), "axis 'q' not found"),
    "an unknown axis of a mesh of the module": (_along("q", mesh="@mesh"), "'q'"),
    "device ids that repeat": (
        _along("y", mesh=_mesh(_AXES, [0] * 8)),
        "no permutation|[Dd]evice.?ids",
    ),
}


@pytest.mark.parametrize("written, message", _WRONG.values(), ids=_WRONG)
def test_wrong_axes(written, message):
    with pytest.raises(mx.ImportError_, match=message):
        mx.import_stablehlo(_program("all_reduce", written, 2))
