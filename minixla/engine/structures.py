"""Compare and change pytree structures without building users' containers.

A user's container may accept only arrays, so it is never built from placeholders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jax.tree_util import default_registry, tree_structure

if TYPE_CHECKING:

    @runtime_checkable
    class PyTreeDef(Protocol):
        """The methods of JAX's class that minixla uses; jaxlib has no type stubs."""

        num_leaves: int

        def children(self) -> list[PyTreeDef]: ...  # noqa: D102
        def node_data(self) -> tuple[type, Any] | None: ...  # noqa: D102
        @classmethod
        def from_node_data_and_children(  # noqa: D102
            cls, registry: object, data: object, children: list[PyTreeDef]
        ) -> PyTreeDef: ...
else:
    from jax.tree_util import PyTreeDef as PyTreeDef

LEAF = tree_structure(0)


def subtrees(prefix: PyTreeDef, whole: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures in `whole` at the leaves of `prefix`.

    Raises:
        ValueError: `prefix` is not a prefix of `whole`.
    """
    if prefix == LEAF:
        return [whole]
    if prefix.node_data() != whole.node_data():
        raise ValueError(f"{prefix} is not a prefix of the structure {whole}")
    pairs = zip(prefix.children(), whole.children(), strict=False)
    if len(prefix.children()) != len(whole.children()):
        count = len(whole.children())
        raise ValueError(f"{prefix} has {len(prefix.children())} children, not {count}")
    return [subtree for pair in pairs for subtree in subtrees(*pair)]


def with_leaves(structure: PyTreeDef, is_leaf: Callable[[type, Any], bool]) -> PyTreeDef:
    """Return the structure with a leaf for each node for which `is_leaf(kind, data)` is true."""
    data = structure.node_data()
    if structure == LEAF or data is None:
        return structure
    if is_leaf(*data):
        return LEAF
    children = [with_leaves(child, is_leaf) for child in structure.children()]
    return type(structure).from_node_data_and_children(default_registry, data, children)


def nodes(structure: PyTreeDef, is_wanted: Callable[[type, Any], bool]) -> list[Any]:
    """Return None for each leaf, and the data of each node with `is_wanted(kind, data)`."""
    data = structure.node_data()
    if structure == LEAF:
        return [None]
    if data is not None and is_wanted(*data):
        return [data]
    return [node for child in structure.children() for node in nodes(child, is_wanted)]
