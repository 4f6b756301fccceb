"""Paths of leaves in the user's pytrees (`params['w'][0]`), computed only for errors."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from jax.tree_util import keystr, tree_flatten_with_path, tree_structure, treedef_is_leaf

from minixla.core.errors import MinixlaError, ShardingError, TransformError, explain
from minixla.core.shapes import AnyShape, TupleValue
from minixla.core.tracing import Tracer, _state, check_value, not_a_value, shape_of, shape_of_data
from minixla.engine.float0 import structure_places
from minixla.engine.structures import PyTreeDef
from minixla.typing import Array, PyTree

Made = TypeVar("Made")
#: Return the path of each leaf, in order.
Places = Callable[[], Sequence[str]]


def parameters_of(fun: Callable[..., PyTree]) -> list[inspect.Parameter]:
    """Return the parameters of a function; empty if Python does not know them."""
    try:
        return list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return []


def parameter_names(fun: Callable[..., PyTree], count: int) -> list[str]:
    """Return the parameter names of the first `count` positional arguments."""
    parameters = parameters_of(fun)
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD
    ]
    rest = next(
        (parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL),
        "argument",
    )
    return [*names, *(f"{rest}[{index}]" for index in range(count - len(names)))][:count]


def numbers_among(argnums: int | Iterable[int], count: int) -> tuple[int, ...]:
    """Return the given positions among `count` positional arguments, counted from the front."""
    listed = argnums if isinstance(argnums, Iterable) else (argnums,)
    return tuple(sorted({n % count for n in listed if -count <= n < count}))


#: The option of a transformation that marks arguments that are not arrays.
_STATIC = {
    "jit": "static_argnames",
    "pmap": "static_broadcasted_argnums",
    "make_graph": "static_argnums",
    "checkpoint": "static_argnums",
}


def check_leaf(leaf: object, subject: str, place: str) -> None:
    """Raise an error with advice for a leaf that is not an array, and for too large integers."""
    argument = re.match(r"argument (\w+)", place)
    is_traced = isinstance(leaf, (Tracer, TupleValue))
    if argument is None or is_traced or shape_of_data(leaf) is not None:
        return check_value(leaf, subject, place)
    name, option = argument[1], _STATIC.get(subject)
    advice = "Pass an array, a NumPy scalar or a Python scalar. "
    if option == "static_argnames":
        advice += f'For an argument of another type use {subject}(f, static_argnames="{name}") '
        advice += "or static_argnums; its values must be hashable."
    elif option is not None:
        advice += f"For an argument of another type pass {option} with its position."
    else:
        advice += f"Bind it beforehand: {subject}(functools.partial(f, {name}=...), ...)."
    raise not_a_value(leaf, subject, place, advice)


def check_leaves(subject: str, leaves: Sequence[object], where: Sequence[str]) -> None:
    """Raise for leaves that are not arrays, and too large integers; JAX checks its own values."""
    for leaf, place in zip(leaves, where, strict=True):
        if isinstance(leaf, Tracer) or not hasattr(leaf, "aval"):
            check_leaf(leaf, subject, place)


def _each(
    function: Callable[[Any, str], Made], subject: str, leaves: Sequence[object], where: Places
) -> list[Made]:
    """Apply a function to each leaf; errors as from `check_leaves`."""
    try:
        return [function(leaf, subject) for leaf in leaves]
    except MinixlaError:
        for leaf, place in zip(leaves, where(), strict=True):
            check_leaf(leaf, subject, place)
        raise


def first_difference(
    name: str, prefix: PyTree, tree: PyTree, is_leaf: Callable[[object], bool] | None = None
) -> str:
    """Describe the first path at which `prefix` is not a prefix of `tree`; empty if it is one."""
    pending = [(name, prefix, tree)]
    while pending:
        path, part, whole = pending.pop()
        if part is None or (is_leaf and is_leaf(part)) or treedef_is_leaf(tree_structure(part)):
            continue
        parts, wholes = _children(part), _children(whole)
        if type(part) is not type(whole) or parts.keys() != wholes.keys():
            return f"{path} is {_kind(part)}; the structure has {_kind(whole)} there"
        pending += [(path + key, parts[key], wholes[key]) for key in reversed(parts)]
    return ""


def _kind(tree: PyTree) -> str:
    if treedef_is_leaf(tree_structure(tree)):
        return "a leaf"
    return f"a {type(tree).__name__} of {', '.join(_children(tree)) or 'nothing'}"


def _children(tree: PyTree) -> dict[str, Any]:
    """Return the children of a node of a pytree by their paths; none for a leaf."""
    pairs, _ = tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)
    return {keystr(path): child for path, child in pairs if path}


@contextmanager
def naming(where: Places, index: int) -> Iterator[None]:
    """Add to errors about a sharding, raised inside a `with` block, the leaf that it is for."""
    try:
        yield
    except ShardingError as error:
        first, *rest = str(error).split("\n")
        place = where()[index]
        if place not in str(error):
            error.args = ("\n".join([first, f"  for {place}", *rest]),)
        raise


def leaf_shapes(subject: str, leaves: Sequence[object], where: Places) -> list[AnyShape]:
    """Return the shapes of the leaves of a pytree."""
    shapes = _each(shape_of, subject, leaves, where)
    if int in map(type, leaves):
        _each(check_value, subject, leaves, where)
    return shapes


def lifted_leaves(subject: str, leaves: Sequence[object], where: Places) -> list[Array]:
    """Return the leaves of a pytree as values of the current trace."""
    return _each(_state.trace.lift, subject, leaves, where)


def other_structure(
    subject: str,
    problem: str,
    name: str,
    mine: tuple[str, PyTreeDef],
    its: tuple[str, PyTreeDef],
    advice: str,
) -> TransformError:
    """Build the error for two different structures, with descriptions such as `it takes`."""
    (one, first), (other, second) = mine, its
    here, there = structure_places(name, first), structure_places(name, second)
    lost = [f"{one} {path}, {other} none" for path in here if path not in there]
    added = [f"{other} {path}, {one} none" for path in there if path not in here]
    details = [f"{one} {first}", f"{other} {second}", *lost[:3], *added[:3]]
    return explain(TransformError, subject, problem, details, advice)
