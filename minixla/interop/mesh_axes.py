"""Convert replica groups that StableHLO writes as mesh axes to lists of process ids."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from minixla.core.stablehlo_text import unquoted
from minixla.sharding.axes import AxisRef
from minixla.sharding.mesh import Mesh

_GROUPS = "#stablehlo.replica_group_mesh_axes<mesh = "
_STRING = r'"((?:[^"\\]|\\.)*+)"'
_SYMBOL = re.compile(rf"@(?:{_STRING}|([\w$.-]+))", re.DOTALL)
_AXES = "#stablehlo.mesh<axes=["
_AXIS = re.compile(rf"(?:, )?<name = {_STRING}, size = (\d+)>", re.DOTALL)
_IDS = re.compile(r'\], device_ids=(dense<(?:"\w*"|[^">]*)> : tensor<\d+xi64>)')
_LIST = "axes = ["
_REFERENCE = re.compile(
    rf"(?:, )?#stablehlo\.axis_ref<name = {_STRING}(?:, sub_axis_info = \((\d+)\)(\d+))?>",
    re.DOTALL,
)
# Groups are stored as lists of ids, so limit the size of a mesh.
_MOST_DEVICES = 1 << 20


def groups_of_axes(attribute: Any, written: str, meshes: Mapping[str, Mesh]) -> np.ndarray | None:
    """Return the table of process ids of a replica group attribute; None for other attributes.

    Args:
        attribute: the MLIR attribute.
        written: the attribute as MLIR prints it.
        meshes: the meshes of the module.

    Raises:
        ValueError: the mesh or an axis is invalid; the message is a clause without a subject.
    """
    if not written.startswith(_GROUPS):
        return None
    position = len(_GROUPS)
    symbol = _SYMBOL.match(written, position)
    if symbol is not None:
        name = symbol[2] if symbol[1] is None else unquoted(symbol[1])
        if name not in meshes:
            raise ValueError(f"names mesh @{name}, which the module does not define")
        mesh, position = meshes[name], symbol.end()
    else:
        mesh, position = _mesh(attribute, written, position + len(_AXES))
    if mesh.size > _MOST_DEVICES:
        raise ValueError(f"has a mesh of {mesh.size} devices; at most {_MOST_DEVICES} are read")
    references = _matches(
        _REFERENCE, written, written.index("axes = [", position) + len("axes = [")
    )
    axes = [_axis(mesh, match) for match in references]
    return np.array(mesh.groups_along([mesh.part(axis) for axis in axes]), np.int64)


def _matches(pattern: re.Pattern[str], text: str, position: int) -> Iterator[re.Match[str]]:
    """Return the adjacent matches from a position on."""
    while match := pattern.match(text, position):
        yield match
        position = match.end()


def _mesh(attribute: Any, written: str, position: int) -> tuple[Mesh, int]:
    """Read the mesh whose axes begin at a position; return it and its end."""
    axes = [*_matches(_AXIS, written, position)]
    position = axes[-1].end() if axes else position
    ids, numbers = _IDS.match(written, position), None
    if ids is not None:
        position = ids.end()
        parsed = ir.Attribute.parse(ids[1], attribute.context)
        numbers = np.asarray(ir.DenseIntElementsAttr(parsed)).tolist()
    names, sizes = [unquoted(axis[1]) for axis in axes], [int(axis[2]) for axis in axes]
    return Mesh(None, names, sizes, device_ids=numbers), position


def _axis(mesh: Mesh, match: re.Match[str]) -> AxisRef:
    name = unquoted(match[1])
    size = mesh.shape.get(name)
    if size is None:
        raise ValueError(f"names axis {name!r}, which its mesh does not have")
    if match[2] is None:
        return AxisRef(name)
    before, own = int(match[2]), int(match[3])
    if not before or not own or size % (before * own):
        raise ValueError(f"has a part ({before}){own} of axis {name!r}, whose size is {size}")
    return AxisRef(name, before, own)
