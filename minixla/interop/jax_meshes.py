"""JAX's functions that take a mesh; these also accept meshes of `mx.sharding`."""

from typing import TYPE_CHECKING, Any

import jax

from minixla.engine.meshes import abstract_mesh, jax_mesh
from minixla.sharding.mesh import Mesh

__all__ = ["NamedSharding", "set_mesh", "use_abstract_mesh"]


def _mesh_of_jax(mesh: Any) -> Any:
    """Convert a mesh of `mx.sharding` to JAX's; return other values for JAX to check."""
    return jax_mesh(mesh) if isinstance(mesh, Mesh) else mesh


def set_mesh(mesh: Mesh | jax.sharding.Mesh | None) -> Any:
    """Set the mesh that specs without a mesh refer to (JAX: set_mesh).

    Args:
        mesh: a mesh of `mx.sharding` or of `jax.sharding`; None removes it.

    Returns:
        A context manager that restores the previous mesh.

    Raises:
        ShardingError: JAX has fewer devices than the mesh.

    Example:
        >>> with mx.set_mesh(mx.sharding.Mesh(jax.devices()[:1], ("x",))):
        ...     print(mx.device_put(np.float32([2]), mx.P("x")).sharding.spec)
        P('x',)
    """
    return jax.set_mesh(_mesh_of_jax(mesh))


def use_abstract_mesh(mesh: Mesh | jax.sharding.AbstractMesh) -> Any:
    """Set the mesh that specs refer to, without its devices (JAX: sharding.use_abstract_mesh).

    Args:
        mesh: a mesh of `mx.sharding`, or an AbstractMesh.

    Returns:
        A context manager that restores the previous mesh.

    Raises:
        ShardingError: when the block is entered: the mesh is not abstract.

    Example:
        >>> with mx.sharding.use_abstract_mesh(mx.sharding.Mesh(None, ("x",), (8,))):
        ...     print(mx.sharding.get_abstract_mesh().axis_sizes)
        (8,)
    """
    return jax.sharding.use_abstract_mesh(abstract_mesh(mesh) if isinstance(mesh, Mesh) else mesh)


if TYPE_CHECKING:
    from jax.sharding import NamedSharding
else:

    class _OfAnyMesh(type):
        """Make calls and `isinstance` checks of `NamedSharding` use JAX's class."""

        def __call__(cls, mesh: Any, spec: Any, *args: Any, **kwargs: Any) -> Any:
            return jax.sharding.NamedSharding(_mesh_of_jax(mesh), spec, *args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, jax.sharding.NamedSharding)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, jax.sharding.NamedSharding)

    class NamedSharding(metaclass=_OfAnyMesh):
        """The sharding of an array over a mesh (JAX: sharding.NamedSharding).

        `NamedSharding(mesh, spec, memory_kind=None)` returns JAX's object.

        Args:
            mesh: a mesh of `mx.sharding` or of `jax.sharding`.
            spec: the `PartitionSpec` over the axes of the mesh.
            memory_kind: the memory of the devices; default: their default memory.

        Returns:
            A `jax.sharding.NamedSharding`.

        Raises:
            ValueError: the spec does not fit the mesh.

        Example:
            >>> mesh = mx.sharding.Mesh(jax.devices()[:1], ("x",))
            >>> mx.device_put(np.float32([1, 2]), mx.NamedSharding(mesh, mx.P("x")))
            Array([1., 2.], dtype=float32)
        """
