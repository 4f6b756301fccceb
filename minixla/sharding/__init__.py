"""Shardings of arrays over the devices of a mesh: Shardy's model, passes and propagation.

See docs/sharding.md. Names load when they are first used; `__init__.pyi` has their types.
"""

from __future__ import annotations

import importlib
from typing import Any

_OF_JAX = ["AbstractDevice", "AbstractMesh", "AxisType", "ManualAxisType", "PartitionSpec"]
_OF_JAX += ["Sharding", "SingleDeviceSharding", "auto_axes", "explicit_axes", "get_abstract_mesh"]
_OF_JAX += ["get_mesh", "make_single_device_sharding", "reshard"]
_HOMES = {
    "jax.sharding": _OF_JAX,
    "minixla.interop.jax_meshes": ["NamedSharding", "set_mesh", "use_abstract_mesh"],
    "minixla.interop.sharding_passes": ["run_pass"],
    "minixla.sharding.axes": ["AxisRef"],
    "minixla.sharding.mesh": ["Mesh"],
    "minixla.sharding.tensor_sharding": ["DimensionSharding", "TensorSharding"],
    "minixla.sharding.text": ["parse_mesh", "parse_sharding"],
    "minixla.tools.layouts": ["layouts", "visualize_sharding"],
    "minixla.transforms.layouts": ["constrain"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'minixla.sharding' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME_OF)
