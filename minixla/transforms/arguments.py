"""Argument handling that transformations share: positions, static arguments, prefix trees."""

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, Self

from jax.tree_util import tree_flatten, tree_structure, tree_unflatten

from minixla.core.errors import TransformError, explain, wrong_argument
from minixla.core.shapes import AnyShape
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import Tracer, _state, leaked, weak_type_of
from minixla.engine import float0
from minixla.engine.structures import PyTreeDef, subtrees
from minixla.transforms import pytree_paths
from minixla.transforms.typed_functions import Function, Numbers, Wrapper
from minixla.typing import Array, ArrayLike, PyTree

#: The attribute that lists the attributes that are methods.
METHODS = "__jitted_methods__"
#: The attribute that records the transformation and the original function; see `sharing`.
ORIGIN = "__minixla_origin__"

#: Positions or names of arguments, or a single one.
Marks = int | str | Iterable[int | str] | None

#: The error for arguments that do not match; takes the arguments of `explain`, without the class.
misfit = functools.partial(explain, TransformError)


class Signature(NamedTuple):
    """The key of a trace: the structure of a tuple of arguments, and the types of the leaves."""

    tree: PyTreeDef
    shapes: Sequence[AnyShape]
    weak: Sequence[bool]


class Cache(dict[object, Any]):
    """The cache of a function's calls; it is empty after unpickling."""

    def __reduce__(self) -> tuple[object, ...]:
        return Cache, ()


def named_after(wrapper: Wrapper, fun: Function) -> Wrapper:
    """Give `wrapper` the name, documentation and signature of `fun`."""
    try:
        functools.update_wrapper(wrapper, fun)
    except TypeError:  # modules of Equinox may have a `__name__` that is not a string
        functools.update_wrapper(wrapper, fun, ("__module__", "__doc__"))
    wrapper.__dict__.pop(ORIGIN, None)
    for name in wrapper.__dict__.pop(METHODS, ()):  # they belong only to the jitted function
        wrapper.__dict__.pop(name, None)
    return wrapper


def in_place_of(fun: Function, subject: str) -> Callable[[Wrapper], Wrapper]:
    """Name the transformed function after `fun`. A decorator."""
    checked_function(fun, subject)
    return lambda wrapper: named_after(hiding_frames(wrapper), fun)


def checked_function(fun: Wrapper, subject: str) -> Wrapper:
    """Return `fun` after checking that it is callable."""
    if not callable(fun):
        problem = f"expected a function, got {type(fun).__name__}"
        advice = (
            f"Pass the function itself, not its result: mx.{subject}(f), not mx.{subject}(f(x))."
        )
        raise misfit(subject, problem, [repr(fun)[:200]], advice)
    return fun


def positions(argnums: Numbers, count: int, subject: str) -> tuple[int, ...]:
    """Return argument positions as non-negative, distinct integers in range."""
    indices: list[int] = []
    for number in map(operator.index, argnums if isinstance(argnums, Iterable) else [argnums]):
        problem = advice = ""
        if not -count <= number < count:
            problem = f"argument {number}, but there are {count} positional arguments"
            advice = "Only positional arguments are supported; count from 0."
        elif number % count in indices:
            problem, advice = f"argument {number % count} twice", "List each argument once."
        if problem:
            raise misfit(subject, f"argnums lists {problem}", [f"argnums = {argnums}"], advice)
        indices.append(number % count)
    return tuple(indices)


def leaving(values: Sequence[ArrayLike], subject: str, where: pytree_paths.Places) -> list[Array]:
    """Return results of a transformed function as values of the current trace."""
    for value in values:
        if isinstance(value, Tracer) and not _state.trace.reaches(value):
            raise leaked(value, subject)
    return pytree_paths.lifted_leaves(subject, values, where)


def check_marks(subject: str, fun: Function, **marks: Marks) -> None:
    """Raise an error for positions and names of arguments that `fun` does not have.

    Raises:
        AttributeValueError: for the first invalid mark.
    """
    listed = {mark: _as_tuple(stated) for mark, stated in marks.items()}
    parameters = pytree_paths.parameters_of(fun) if any(listed.values()) else []
    kinds, name = (
        {parameter.kind for parameter in parameters},
        getattr(fun, "__name__", "the function"),
    )
    unnamed = Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL
    names = [parameter.name for parameter in parameters if parameter.kind not in unnamed]
    count = sum([parameter.kind <= parameter.POSITIONAL_OR_KEYWORD for parameter in parameters])
    for mark, stated in listed.items() if parameters else ():
        for number in stated:
            if isinstance(number, str):
                fits = number in names or Parameter.VAR_KEYWORD in kinds
                rule = f"a name, or names, of parameters of {name}: {', '.join(names)}"
            else:
                fits = -count <= number < count or Parameter.VAR_POSITIONAL in kinds
                rule = f"a position, or positions, of arguments of {name}, which takes {count}"
            if not fits:
                raise wrong_argument(subject, mark, marks[mark], rule)


class Arguments:
    """The arguments of a call; those of `numbers` (`given`) are flattened into `leaves`.

    So are `kwargs`, unless they are None. `tree` is the structure of `given`, or of the pair of
    `given` and `kwargs`. Arguments in `fixed` are passed to the function unchanged.
    """

    def __init__(
        self,
        subject: str,
        fun: Function,
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree] | None = None,
        numbers: Sequence[int] | None = None,
        fixed: Mapping[str, PyTree] = MappingProxyType({}),
    ) -> None:
        self.subject, self._fun, self._args = subject, checked_function(fun, subject), args
        self._kwargs, self.numbers, self.fixed = kwargs, numbers, fixed
        self.name, self._is_single = getattr(fun, "__name__", "main"), False
        self.given = tuple(args if numbers is None else [args[number] for number in numbers])
        taken = self.given if kwargs is None else (self.given, kwargs)
        self.leaves, self.tree = float0.flatten(taken)

    @classmethod
    def besides(
        cls,
        subject: str,
        fun: Function,
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree] | None,
        static: Numbers,
    ) -> Self:
        """Select all arguments except static ones, which are given by position."""
        skipped = pytree_paths.numbers_among(static, len(args))
        numbers = [n for n in range(len(args)) if n not in skipped] if skipped else None
        return cls(subject, fun, args, kwargs, numbers)

    @classmethod
    def chosen(
        cls,
        subject: str,
        fun: Function,
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree],
        argnums: Numbers,
    ) -> Self:
        """Select arguments by position; the function gets the others unchanged."""
        arguments = cls(subject, fun, args, None, positions(argnums, len(args), subject), kwargs)
        arguments._is_single = not isinstance(argnums, Iterable)
        return arguments

    def where(self) -> list[str]:
        """Return the paths of the leaves, for messages."""
        names = pytree_paths.parameter_names(self._fun, len(self._args))
        return self._places("argument {}".format, names, "argument {}".format)

    def paths(self) -> list[str]:
        """Return the paths of the leaves in the call, such as `args[0]['w']`, for tables."""
        return self._places("args[{}]".format, range(len(self._args)), "kwargs[{!r}]".format)

    def _places(
        self,
        positional: Callable[[object], str],
        names: Sequence[object],
        by_keyword: Callable[[object], str],
    ) -> list[str]:
        numbers = range(len(self._args)) if self.numbers is None else self.numbers
        pairs = [(positional(names[n]), self._args[n]) for n in numbers]
        pairs += [(by_keyword(name), value) for name, value in sorted((self._kwargs or {}).items())]
        return [place for name, value in pairs for place in float0.places(name, value)]

    def shapes(self) -> list[AnyShape]:
        """Return the shapes of the leaves, which must be arrays."""
        return pytree_paths.leaf_shapes(self.subject, self.leaves, self.where)

    def lifted(self) -> list[Array]:
        """Return the leaves as values of the current trace."""
        return pytree_paths.lifted_leaves(self.subject, self.leaves, self.where)

    def signature(self, shapes: Sequence[AnyShape] | None = None) -> Signature:
        """Return the signature of the leaves, or of parts of them with other shapes."""
        shapes_found = self.shapes() if shapes is None else shapes
        return Signature(self.tree, shapes_found, list(map(weak_type_of, self.leaves)))

    def alike(self, leaves: Sequence[object]) -> PyTree:
        """Return other leaves in the structure of `given`, or of a single chosen argument."""
        rebuilt = tree_unflatten(self.tree, leaves)
        return rebuilt[0] if self._is_single else rebuilt

    def apply(
        self, positional: Sequence[PyTree], named: Mapping[str, PyTree] = MappingProxyType({})
    ) -> PyTree:
        """Call the function with others in place of the flattened arguments."""
        if self.numbers is not None:
            taken = dict(zip(self.numbers, positional, strict=True))
            positional = [taken.get(number, argument) for number, argument in enumerate(self._args)]
        return self._fun(*positional, **named, **self.fixed)

    def call(self, *leaves: object) -> PyTree:
        """Call the function with other leaves."""
        rebuilt = tree_unflatten(self.tree, leaves)
        return self.apply(rebuilt) if self._kwargs is None else self.apply(*rebuilt)


class StaticArguments:
    """The static arguments, by positions or names; a position implies its name and vice versa."""

    def __init__(self, fun: Function, argnums: Marks, argnames: Marks) -> None:
        self._fun, self._argnums, self._argnames = fun, _as_tuple(argnums), _as_tuple(argnames)
        self._is_any = bool(self._argnums or self._argnames)
        parameters = pytree_paths.parameters_of(fun) if self._is_any else ()
        self._parameters = [parameter.name for parameter in parameters]

    def split(
        self, subject: str, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> tuple[Arguments, list[tuple[int | str, Any]]]:
        """Return the other arguments, and the static ones in pairs with their index or name."""
        if not self._is_any:
            return Arguments(subject, self._fun, args, kwargs), []
        parameters, among, count = self._parameters, pytree_paths.numbers_among, len(args)
        named = [parameters.index(name) for name in self._argnames if name in parameters]
        numbers = among([*among(self._argnums, count), *named], count)
        names = {*self._argnames, *[parameters[n] for n in among(self._argnums, len(parameters))]}
        fixed = {name: kwargs[name] for name in sorted(kwargs) if name in names}
        others = {name: value for name, value in kwargs.items() if name not in fixed}
        dynamic = [number for number in range(count) if number not in numbers]
        static = [*[(number, args[number]) for number in numbers], *fixed.items()]
        return Arguments(subject, self._fun, args, others, dynamic, fixed), static


def _as_tuple(value: Marks) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and type(value) is not str else (value,)


def flatten_prefix(
    subject: str,
    name: str,
    tree: PyTree,
    prefix: PyTree,
    what: str = "an integer",
    is_leaf: Callable[[object], bool] | None = None,
) -> list[Any]:
    """Return the leaf of a prefix tree, `what` or None, for each leaf of `tree`.

    `tree` may be a structure. With `is_leaf`, the leaves of `prefix` need not be axes.
    """
    whole = tree if isinstance(tree, PyTreeDef) else tree_structure(tree)
    if prefix is None or (is_leaf is None and type(prefix) is int):  # 10 % of a call of vmap
        return [prefix] * whole.num_leaves
    listed, structure = tree_flatten(prefix, is_leaf=is_leaf or (lambda x: x is None))
    others = [] if is_leaf else [x for x in listed if not isinstance(x, (int, NoneType))]
    parts, reason = [], f"{others[0]!r} is not an axis" if others else ""
    try:
        parts = [] if reason else subtrees(structure, whole)
    except (TypeError, ValueError) as error:
        reason = str(error)
    if reason:
        full = tree_unflatten(whole, [0] * whole.num_leaves)
        reason = (
            pytree_paths.first_difference(name, prefix, full, is_leaf) or reason.splitlines()[0]
        )
        details = [f"{name} = {prefix!r}", f"structure: {whole}", reason]
        advice = (
            f"{name} must be {what}, None, or a tree of these that is a prefix of the structure."
        )
        raise misfit(
            subject, f"{name} does not match the structure that it describes", details, advice
        )
    pairs = zip(listed, parts, strict=True)
    return [leaf for leaf, part in pairs for _ in range(part.num_leaves)]
