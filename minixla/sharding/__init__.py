"""Layouts of arrays over the devices of a mesh: Shardy's model, passes and propagation.

See docs/sharding.md. Names load when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax.sharding import AbstractMesh as AbstractMesh
    from jax.sharding import AxisType as AxisType
    from jax.sharding import PartitionSpec as PartitionSpec
    from jax.sharding import Sharding as Sharding
    from jax.sharding import SingleDeviceSharding as SingleDeviceSharding
    from jax.sharding import get_abstract_mesh as get_abstract_mesh
    from jax.sharding import get_mesh as get_mesh

    from minixla.interop.jax_meshes import NamedSharding as NamedSharding
    from minixla.interop.jax_meshes import set_mesh as set_mesh
    from minixla.interop.jax_meshes import use_abstract_mesh as use_abstract_mesh
    from minixla.interop.sharding_passes import run_pass as run_pass
    from minixla.sharding.axes import AxisRef as AxisRef
    from minixla.sharding.mesh import Mesh as Mesh
    from minixla.sharding.tensor_sharding import DimensionSharding as DimensionSharding
    from minixla.sharding.tensor_sharding import TensorSharding as TensorSharding
    from minixla.sharding.text import parse_mesh as parse_mesh
    from minixla.sharding.text import parse_sharding as parse_sharding
    from minixla.tools.layouts import layouts as layouts
    from minixla.tools.layouts import visualize_sharding as visualize_sharding
    from minixla.transforms.layouts import constrain as constrain

_OF_JAX = ["AbstractMesh", "AxisType", "PartitionSpec", "Sharding", "SingleDeviceSharding"]
_OF_JAX += ["get_abstract_mesh", "get_mesh"]
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


if not TYPE_CHECKING:  # to type checkers there is nothing besides what is imported above

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'minixla.sharding' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(_HOME_OF)
