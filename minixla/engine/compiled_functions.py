"""Functions of arrays as compiled functions, one for each value of their static arguments.

Arrays and floats are operands, so one compilation serves all values of a float. All
other arguments are static: each value has its own compiled function.
"""

import types
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from inspect import signature
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax
import numpy as np
from jax.errors import ConcretizationTypeError, JaxRuntimeError
from jax.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

from minixla.core.attributes import INEXACT
from minixla.core.errors import ConcretizationError
from minixla.core.shapes import DeclaredArray
from minixla.core.tracer import Tracer
from minixla.core.whole_programs import plain_flags
from minixla.engine.foreign_code import raise_ours
from minixla.engine.jax_private import current_jax_trace, eval_trace
from minixla.engine.program import jit_staged, stage_for_jax
from minixla.engine.structures import PyTreeDef
from minixla.typing import ArrayLike, PyTree

_MOST_COMPILED = 256  # for each function: each call may have a new option
_NUMBERS = (bool, int, float, complex)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial)
_OPERAND = "operand"
Entry = TypeVar("Entry")
# Types of static arguments for which equal values are interchangeable.
_PLAIN = {bool, int, str, type(None), type}


class _Kept(NamedTuple):
    """A compiled function for one set of static arguments.

    Attributes:
        run: the compiled function of the operands.
        is_exact: whether floats are static because the function needs their values.
    """

    run: Callable[..., PyTree]
    is_exact: bool


class _Form(NamedTuple):
    """Calls with the same argument types: which are static, and the compiled functions."""

    static: Callable[[Sequence[object]], tuple[object, ...]]
    operands: Callable[[Sequence[object]], Sequence[object]]
    compiled: dict[object, Callable[..., PyTree]]


def _unused(*_: object) -> NoReturn:
    raise AssertionError("the floats are static")


class _Given(NamedTuple):
    """The arguments of a call as leaves.

    Attributes:
        key: identifies the static leaves and the structures.
        leaves: the leaves of all arguments.
        fixed: which leaves are static.
        parts: for each argument its number of leaves, and its structure, or None for a leaf.
        keywords: the names of the last arguments.
    """

    key: Hashable
    leaves: list[object]
    fixed: list[bool]
    parts: list[tuple[int, PyTreeDef | None]]
    keywords: tuple[str, ...]

    @property
    def operands(self) -> list[object]:
        """Return the leaves that are not static."""
        return [
            leaf for leaf, is_static in zip(self.leaves, self.fixed, strict=True) if not is_static
        ]

    def rebuilder(self) -> Callable[[Sequence[object]], tuple[list[PyTree], dict[str, PyTree]]]:
        """Return a function from operands to args and kwargs that does not keep the operands."""
        fixed, parts, keywords = self.fixed, self.parts, self.keywords
        static = [x if is_static else None for x, is_static in zip(self.leaves, fixed, strict=True)]

        def rebuild(operands: Sequence[object]) -> tuple[list[PyTree], dict[str, PyTree]]:
            rest = iter(operands)
            pairs = zip(static, fixed, strict=True)
            leaves = iter([x if is_static else next(rest) for x, is_static in pairs])
            values = [
                next(leaves) if tree is None else tree_unflatten(tree, islice(leaves, size))
                for size, tree in parts
            ]
            count = len(values) - len(keywords)
            return values[:count], dict(zip(keywords, values[count:], strict=True))

        return rebuild


class CompiledFunctions:
    """Compiled functions of one function of arrays, by its static arguments.

    A call takes the positional arguments and the keywords. It returns NotImplemented if the call
    cannot be compiled: for operands that are not arrays, for static arguments that cannot be
    hashed or are functions, and for arguments that the function rejects.

    Args:
        function: the function.
        names, known, numbers: see `one_program`.
    """

    def __init__(
        self,
        function: Callable[..., PyTree],
        names: Sequence[str] = (),
        known: Sequence[str] = (),
        numbers: bool = False,
    ) -> None:
        self._function, self._names, self._known = function, names, known
        self._numbers = numbers
        self._kept: dict[object, _Kept] = {}
        #: Calls in which the function needs the value of an operand.
        self._unknowable: dict[object, None] = {}
        self._forms: dict[object, _Form] = {}
        self._is_declared = False

    def __call__(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
        """Return the function's result, or NotImplemented."""
        values = (*args, *kwargs.values()) if kwargs else args
        form = self._forms.get((*map(type, values), *kwargs))
        if form is not None and current_jax_trace.value is eval_trace:
            try:
                run = form.compiled.get(form.static(values))
                if run is not None:
                    return run(*form.operands(values))
            except Exception:
                pass  # an argument cannot be hashed, or the call below raises the error
        try:
            return self._general(args, kwargs)
        except JaxRuntimeError as error:
            raise_ours(error, self._function.__name__)
            raise

    def _general(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
        if not self._is_declared:
            self._declare()
        call = self._taken_apart(args, kwargs)
        if call is None:
            return NotImplemented
        kept = self._kept.get(call.key)
        if kept is None or not kept.is_exact:
            result = self._result(call)
            if result is not NotImplemented:
                self._remember_form(call, args, kwargs)
                return result
        # The function may need the values of its float options.
        exact = self._taken_apart(args, kwargs, is_exact=True)
        if exact is None or exact.fixed == call.fixed:
            return NotImplemented
        result = self._result(exact)
        if result is not NotImplemented and (kept is None or not kept.is_exact):
            self._bounded(self._kept)[call.key] = _Kept(_unused, True)
        return result

    def _remember_form(
        self, call: _Given, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> None:
        """Cache the compiled function under these argument types."""
        values = (*args, *kwargs.values())
        kinds = (*map(type, values), *kwargs)
        form = _form_of(call, values)
        if form is None:
            return
        form = self._bounded(self._forms).setdefault(kinds, form)
        run: Any = self._kept[call.key].run
        run = run.__wrapped__  # `__call__` tests the current trace itself
        self._bounded(form.compiled)[form.static(values)] = run

    def _result(self, call: _Given) -> PyTree:
        """Run the compiled function, and cache it if it succeeds."""
        kept = self._kept.get(call.key)
        if call.key in self._unknowable:
            return NotImplemented
        entry = _Kept(self._compiled(call), False) if kept is None else kept
        try:
            result = entry.run(*call.operands)
        except JaxRuntimeError:
            raise
        except Exception as error:  # the function itself raises the error
            if isinstance(error, (ConcretizationError, ConcretizationTypeError)):
                self._bounded(self._unknowable)[call.key] = None
            return NotImplemented
        if kept is None:
            self._bounded(self._kept)[call.key] = entry
        return result

    def _compiled(self, call: _Given) -> Callable[..., PyTree]:
        function, rebuild = self._function, call.rebuilder()

        def whole(*operands: ArrayLike) -> PyTree:
            args, kwargs = rebuild(operands)
            return function(*args, **kwargs)

        whole.__name__ = getattr(function, "__name__", "function")
        return jit_staged(stage_for_jax(whole))

    @staticmethod
    def _bounded(cache: dict[object, Entry]) -> dict[object, Entry]:
        if len(cache) >= _MOST_COMPILED:
            cache.clear()
        return cache

    def _declare(self) -> None:
        function = self._function
        # Options that place results on devices.
        self._places = frozenset(getattr(function, "places", ()))
        declared = signature(function).parameters
        positional = [
            parameter
            for parameter in declared.values()
            if parameter.kind <= parameter.VAR_POSITIONAL
        ]
        stars = [
            parameter for parameter in positional if parameter.kind is parameter.VAR_POSITIONAL
        ]
        self._by_position = [parameter.name for parameter in positional if parameter not in stars]
        self._stars = stars[0].name if stars else None
        listed = self._names or [parameter.name for parameter in positional]
        self._operands = {*listed} - {*self._known}
        flags = [
            parameter.name for parameter in declared.values() if isinstance(parameter.default, bool)
        ]
        self._flags = frozenset(flags)
        self._is_declared = True

    def _taken_apart(
        self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree], is_exact: bool = False
    ) -> _Given | None:
        """Flatten the arguments; floats are static if `is_exact`. None: not compiled."""
        by_position, count = self._by_position, len(args)
        if not self._places.isdisjoint(kwargs) or (count > len(by_position) and not self._stars):
            return None
        names = [*by_position[:count], *[self._stars] * (count - len(by_position)), *kwargs]
        leaves, fixed, parts, key = (
            list[object](),
            list[bool](),
            list[tuple[int, Any]](),
            list[object](),
        )
        for name, value in zip(names, (*args, *kwargs.values()), strict=True):
            if name in self._flags and type(value) is not bool:
                value = plain_flags(self._function.__name__, (name,), {name: value}).get(
                    name, value
                )
            try:
                items, tree = ([value], None) if _is_leaf(value) else tree_flatten(value)
            except (RecursionError, SystemError, ValueError):  # a list that contains itself
                return None
            for leaf in items:
                part = _part_of_key(leaf, name in self._operands, is_exact)
                if part is None:
                    return None
                leaves.append(leaf)
                fixed.append(part is not _OPERAND)
                key.append(part)
            parts.append((len(items), tree))
        kinds = [type(x) for x, is_static in zip(leaves, fixed, strict=True) if not is_static]
        if not kinds or (not self._numbers and all(kind in _NUMBERS for kind in kinds)):
            return None
        keywords, told = (*kwargs,), (is_exact, *kwargs, *parts, *key)
        try:
            hash(told)
        except TypeError:  # an option cannot be hashed
            return None
        return _Given(told, leaves, fixed, parts, keywords)


def _getter(places: Sequence[int]) -> Callable[[Sequence[object]], tuple[object, ...]]:
    """Return a function that takes the given items of a sequence."""
    if list(places) == list(range(places[0], places[-1] + 1) if places else ()):
        return itemgetter(slice(places[0], places[-1] + 1) if places else slice(0))
    return itemgetter(*places)


def _is_flat(tree: Any, flags: Sequence[bool]) -> bool:
    """Return whether a tuple contains only static leaves."""
    return len(flags) == tree.num_nodes - 1 and all(flags)


def _form_of(call: _Given, values: Sequence[object]) -> _Form | None:
    """Return the form of a call, or None if the fast lookup cannot distinguish such calls."""
    static, operands = list[int](), list[int]()
    leaves = iter(zip(call.leaves, call.fixed, strict=True))
    has_trees = False
    for index, (size, tree) in enumerate(call.parts):
        group = list(islice(leaves, size))
        flags = [is_static for _, is_static in group]
        is_plain = all(type(leaf) in _PLAIN for leaf, is_static in group if is_static)
        if tree is None and flags == [False]:
            operands.append(index)
        elif tree is None and is_plain and group[0][0] is values[index]:
            static.append(index)
        elif type(values[index]) is tuple and is_plain and _is_flat(tree, flags):
            static.append(index)
            has_trees = True
        elif tree is not None and not any(flags):
            operands.append(index)
            has_trees = True
        else:
            return None
    if not has_trees:
        return _Form(_getter(static), _getter(operands), {})

    def told(values: Sequence[object]) -> tuple[object, ...]:
        statics = [values[index] for index in static]
        kinds = [
            tuple(map(type, static_value))
            for static_value in statics
            if type(static_value) is tuple
        ]
        return (*statics, *kinds, *[tree_structure(values[index]) for index in operands])

    return _Form(told, lambda values: tree_leaves([values[index] for index in operands]), {})


def _is_leaf(value: object) -> bool:
    if isinstance(value, (list, tuple, dict)):
        return False
    return value is None or not hasattr(value, "tree_flatten")


def _part_of_key(leaf: object, is_operand: bool, is_exact: bool) -> Hashable:
    """Return `_OPERAND`, or the key of a static leaf; None if the leaf is neither."""
    kind = type(leaf)
    if kind is DeclaredArray or isinstance(leaf, Tracer):
        return None
    is_array = isinstance(leaf, (jax.Array, np.ndarray))
    if is_operand:
        if is_array or isinstance(leaf, (*_NUMBERS, np.generic)):
            return _OPERAND
        return (kind,) if leaf is None else None
    if is_array:
        return None if is_exact else _OPERAND
    if isinstance(leaf, INEXACT):
        return (kind, repr(leaf)) if is_exact else _OPERAND
    # A function in the key would live as long as the compiled function.
    is_function = isinstance(leaf, _FUNCTIONS) or (callable(leaf) and not isinstance(leaf, type))
    return None if is_function else (kind, leaf)
