"""Types of transformed functions and of options, for type checkers."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypedDict, TypeVar

from minixla.typing import PyTree

if typing.TYPE_CHECKING:
    from minixla.core.graph import Graph
    from minixla.transforms.layouts import MeshLike

Function = Callable[..., PyTree]
Wrapper = TypeVar("Wrapper", bound=Function)
#: The parameters and the result of a function that is transformed.
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
#: Auxiliary data that a function returns with its result.
Aux = TypeVar("Aux")
#: Positions of arguments, or a single one.
Numbers = int | Sequence[int]

_Others = ParamSpec("_Others")
_Given = TypeVar("_Given", covariant=True)
_Bound = TypeVar("_Bound")


class Jitted(Protocol[Parameters, _Given]):
    """The result of `jit`: the function, and the methods of `jax.jit`'s object."""

    __name__: str
    __wrapped__: Callable[..., PyTree]

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> _Given:
        """Call the function."""
        ...

    @typing.overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @typing.overload
    def __get__(
        self: Jitted[Concatenate[Any, _Others], _Bound], instance: object, owner: type | None = None
    ) -> Jitted[_Others, _Bound]: ...

    def lower(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return JAX's stage, to be compiled ahead of time."""
        ...

    def trace(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return JAX's stage before `lower`."""
        ...

    def eval_shape(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return the result's shapes and types."""
        ...

    def clear_cache(self) -> None:
        """Forget programs and traces."""
        ...

    def graph(self, *args: PyTree, **kwargs: PyTree) -> Graph:
        """Return the graph for these arguments."""
        ...

    def shardings(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return the shardings of all instructions' results."""
        ...


class JitOptions(TypedDict, total=False):
    """The keywords of `jit`."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Iterable[str] | None
    in_shardings: PyTree
    out_shardings: PyTree
    keep_unused: bool
    device: object
    backend: str | None
    inline: bool
    compiler_options: dict[str, object] | None
    mesh: MeshLike | None


class PmapOptions(TypedDict, total=False):
    """The keywords of `pmap`."""

    in_axes: int | Sequence[PyTree] | None
    out_axes: PyTree
    static_broadcasted_argnums: int | Sequence[int]
    devices: Sequence[object] | None
    backend: str | None
    axis_size: int | None
    donate_argnums: int | Sequence[int]
