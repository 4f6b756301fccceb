"""The text form of meshes and shardings, as SDY prints it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from minixla.core.errors import ShardingError, check_arguments, explain
from minixla.core.stablehlo_text import unquoted
from minixla.sharding.axes import AxisRef
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding

Item = TypeVar("Item")
_TOKEN = re.compile(
    r'\s*(?:("(?:[^"\\]|\\.)*")|(p\d+)|([A-Za-z_#][\w.$-]*)|(-?\d+)|(.))', re.DOTALL
)
_SYMBOL = re.compile(r'\s*@(?:"((?:[^"\\]|\\.)*)"|([\w$.-]+))')


class _Reader:
    """A parser of one attribute, from left to right."""

    def __init__(self, text: str, what: str, meshes: Mapping[str, Mesh]) -> None:
        self.text, self.what, self.meshes = text, what, meshes
        self.place = 0

    def peek(self) -> str:
        """Return the next token, or "" at the end."""
        match = _TOKEN.match(self.text, self.place)
        return "" if match is None else match[0].strip()

    def take(self, wanted: str | None = None) -> str:
        """Consume and return the next token, which must be `wanted` if that is given."""
        token = self.peek()
        if not token or (wanted is not None and token != wanted):
            self.refuse(f"{wanted or 'more'} is expected")
        self.place = _TOKEN.match(self.text, self.place).end()  # type: ignore[union-attr]  # peek found it
        return token

    def took(self, token: str) -> bool:
        """Consume the next token if it is this one, and return whether it was."""
        if self.peek() != token:
            return False
        self.take()
        return True

    def listed(self, ends: str, read: Callable[[], Item]) -> list[Item]:
        """Read items between brackets, with commas between them."""
        self.take(ends[0])
        items: list[Item] = []
        while not self.took(ends[1]):
            if items:
                self.take(",")
            items.append(read())
        return items

    def number(self) -> int:
        token = self.take()
        if not re.fullmatch(r"-?\d+", token):
            self.place -= len(token)
            self.refuse("a number is expected")
        return int(token)

    def name(self) -> str:
        token = self.take()
        if not token.startswith('"'):
            self.place -= len(token)
            self.refuse('a name in quotes ("x") is expected')
        return unquoted(token[1:-1])

    def axis(self) -> AxisRef:
        name = self.name()
        if not self.took(":"):
            return AxisRef(name)
        self.take("(")
        pre_size = self.number()
        self.take(")")
        return AxisRef(name, pre_size, self.number())

    def dimension(self) -> DimensionSharding:
        is_closed = True

        def entry() -> AxisRef | None:
            nonlocal is_closed
            if not is_closed:
                self.refuse("? comes last")
            is_closed = not self.took("?")
            return self.axis() if is_closed else None

        axes = [axis for axis in self.listed("{}", entry) if axis is not None]
        token, priority = self.peek(), None
        if re.fullmatch(r"p\d+", token):
            priority = int(self.take()[1:])
        return DimensionSharding(tuple(axes), is_closed, priority)

    def mesh(self) -> Mesh:
        self.take("<")
        sizes: dict[str, int] = {}

        def axis() -> None:
            name = self.name()
            self.take("=")
            if name in sizes:
                self.refuse(f"axis {name} is repeated")
            sizes[name] = self.number()

        self.listed("[]", axis)
        numbers = None
        if self.took(","):
            self.take("device_ids")
            self.take("=")
            numbers = self.listed("[]", self.number)
        self.take(">")
        return Mesh(None, list(sizes), list(sizes.values()), device_ids=numbers)

    def mesh_or_symbol(self) -> tuple[Mesh, str | None]:
        if self.took("mesh"):
            return self.mesh(), None
        match = _SYMBOL.match(self.text, self.place)
        if match is None:
            self.refuse("a mesh (@name, or mesh<...>) is expected")
        self.place, name = match.end(), match[2] if match[1] is None else unquoted(match[1])
        if name not in self.meshes:
            names = ", ".join(self.meshes) or "none"
            self.refuse(f"mesh @{name} is unknown; there are: {names}")
        return self.meshes[name], name

    def sharding(self) -> TensorSharding:
        self.take("<")
        mesh, name = self.mesh_or_symbol()
        self.take(",")
        fields: dict[str, Any] = {"dimensions": tuple(self.listed("[]", self.dimension))}
        while self.took(","):
            label = self.take()
            if label not in ("replicated", "unreduced") or label in fields:
                self.refuse(f"{label} is not expected")
            self.take("=")
            fields[label] = tuple(self.listed("{}", self.axis))
        self.take(">")
        return TensorSharding(mesh, **fields, mesh_name=name)

    def end(self, value: Item) -> Item:
        """Return a value; raise an error if more text follows."""
        if self.peek():
            self.refuse("nothing more is expected")
        return value

    def refuse(self, problem: str) -> NoReturn:
        """Raise the error at the current position."""
        context = self.text[max(0, self.place - 60) : self.place + 60].strip()
        given = [f"at {self.place}: {context[:120]!r}"]
        advice = 'Meshes are written <["x"=2]>, shardings <@mesh, [{"x"}, {?}]>, as SDY does.'
        raise explain(ShardingError, self.what, problem, given, advice)


def _started(text: str, prefix: str, what: str, meshes: Mapping[str, Mesh]) -> _Reader:
    is_dict = isinstance(meshes, Mapping)
    check_arguments(
        what,
        text=(text, isinstance(text, str), "SDY's text"),
        meshes=(meshes, is_dict, "a dictionary of meshes by name"),
    )
    return _Reader(text.strip().removeprefix(prefix), what, meshes)


def parse_mesh(text: str) -> Mesh:
    """Parse a mesh from SDY's text, `<["x"=2, "y"=4]>` or `#sdy.mesh<...>`.

    Args:
        text: the text.

    Returns:
        A Mesh.

    Raises:
        ShardingError: the text is invalid (the message shows where), or not a mesh.

    Example:
        >>> mx.sharding.parse_mesh('<["x"=2, "y"=4]>')
        <Mesh ["x"=2, "y"=4]>
    """
    reader = _started(text, "#sdy.mesh", "mesh", {})
    return reader.end(reader.mesh())


def parse_sharding(text: str, meshes: Mapping[str, Mesh] = {}) -> TensorSharding:
    """Parse a sharding from SDY's text, `<@mesh, [{"x"}, {?}]>` or `#sdy.sharding<...>`.

    Args:
        text: the text.
        meshes: the meshes that the text may name.

    Returns:
        A TensorSharding.

    Raises:
        ShardingError: the text is invalid (the message shows where), or not a sharding.

    Example:
        >>> mesh = mx.sharding.parse_mesh('<["x"=2]>')
        >>> mx.sharding.parse_sharding('<@mesh, [{"x"}, {?}]>', {"mesh": mesh}).dimensions[1]
        DimensionSharding(axes=(), is_closed=False, priority=None)
    """
    reader = _started(text, "#sdy.sharding", "sharding", meshes)
    return reader.end(reader.sharding())


def parse_shardings(text: str, meshes: Mapping[str, Mesh]) -> list[TensorSharding]:
    """Parse shardings of several values, `#sdy.sharding_per_value<[<...>]>`; see parse_sharding."""
    reader = _started(text, "#sdy.sharding_per_value", "sharding_per_value", meshes)
    reader.take("<")
    shardings = reader.listed("[]", reader.sharding)
    reader.take(">")
    return reader.end(shardings)


def parse_axes(text: str) -> list[str]:
    """Parse names of manual axes, `#sdy<manual_axes{"x", "y"}>`."""
    return [axis.name for axis in parse_axis_list(text)]


def parse_axis_list(text: str) -> list[AxisRef]:
    """Parse axes and parts of axes, `#sdy<axis_ref_list{"x", "y":(1)2}>`."""
    reader = _Reader(re.sub(r"^\s*#sdy<\w+", "", text), "axes", {})
    axes = reader.listed("{}", reader.axis)
    reader.took(">")
    return reader.end(axes)
