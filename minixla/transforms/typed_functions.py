"""What type checkers know of functions that transformations give, and of their options.

Nothing here is there when programs run: signatures name it, and these are not evaluated.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypedDict, TypeVar, overload

from minixla.core.graph import Graph
from minixla.tools.layouts import Layouts
from minixla.transforms.layouts import MeshLike
from minixla.typing import PyTree

Parameters = ParamSpec("Parameters")
Others = ParamSpec("Others")
Result = TypeVar("Result", covariant=True)
Given = TypeVar("Given")


class Jitted(Protocol[Parameters, Result]):
    """What `jit` gives: the function, and what `jax.jit`'s object offers."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """The function's result."""
        ...

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: "Jitted[Concatenate[Any, Others], Given]", instance: object, owner: type | None = None
    ) -> "Jitted[Others, Given]": ...

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """JAX's stage, to be compiled ahead of time."""
        ...

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """JAX's stage before that."""
        ...

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The result's shapes and types."""
        ...

    def clear_cache(self) -> None:
        """Forgets programs and traces."""
        ...

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for these arguments."""
        ...

    def shardings(self, *args: Any, **kwargs: Any) -> Layouts:
        """How every instruction's result lies over devices."""
        ...


class JitOptions(TypedDict, total=False):
    """The keywords of `jit`."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Iterable[str] | None
    in_shardings: Any
    out_shardings: Any
    keep_unused: bool
    device: Any
    backend: str | None
    inline: bool
    mesh: MeshLike | None


class PmapOptions(TypedDict, total=False):
    """The keywords of `pmap`."""

    in_axes: int | Sequence[PyTree] | None
    out_axes: PyTree
    static_broadcasted_argnums: int | Sequence[int]
    devices: Sequence[Any] | None
    backend: str | None
    axis_size: int | None
    donate_argnums: int | Sequence[int]
