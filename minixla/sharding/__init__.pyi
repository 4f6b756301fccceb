"""Layouts of arrays over the devices of a mesh."""

from jax.sharding import AbstractDevice as AbstractDevice
from jax.sharding import AbstractMesh as AbstractMesh
from jax.sharding import AxisType as AxisType
from jax.sharding import ManualAxisType as ManualAxisType
from jax.sharding import PartitionSpec as PartitionSpec
from jax.sharding import Sharding as Sharding
from jax.sharding import SingleDeviceSharding as SingleDeviceSharding
from jax.sharding import auto_axes as auto_axes
from jax.sharding import explicit_axes as explicit_axes
from jax.sharding import get_abstract_mesh as get_abstract_mesh
from jax.sharding import get_mesh as get_mesh
from jax.sharding import make_single_device_sharding as make_single_device_sharding
from jax.sharding import reshard as reshard

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
