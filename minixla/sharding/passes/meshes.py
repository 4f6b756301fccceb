"""The pass that names every mesh."""

from minixla.sharding.mesh import Mesh
from minixla.sharding.passes.symbols import Symbols
from minixla.sharding.program import Program
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.value_shardings import change_shardings


def lift_inlined_meshes(program: Program) -> None:
    """Make every sharding refer to its mesh by name, and name every mesh.

    SDY: sdy-lift-inlined-meshes. The first name of a mesh is kept. New names are `maximal_mesh_`
    with the device's id, `empty_mesh`, or the first free name among `mesh`, `mesh_0`, `mesh_1` ...
    """
    names: dict[Mesh, str] = {}
    for name, mesh in program.meshes.items():
        names.setdefault(mesh, name)
    symbols = Symbols([*program.functions, *names.values()])

    def named(sharding: TensorSharding) -> TensorSharding:
        mesh = sharding.mesh
        if mesh not in names:
            names[mesh] = symbols.free(_stem(mesh))
        name = names[mesh]
        return sharding if sharding.mesh_name == name else sharding.of(mesh_name=name)

    change_shardings(program, named)
    program.meshes = {name: mesh for mesh, name in names.items()}


def _stem(mesh: Mesh) -> str:
    if mesh.axis_names:
        return "mesh"
    return "empty_mesh" if mesh.device_ids is None else f"maximal_mesh_{mesh.device_ids[0]}"
