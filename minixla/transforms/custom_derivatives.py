"""custom_jvp, custom_vjp and stop_gradient: derivatives that the user defines."""

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, ClassVar

import jax
import numpy as np
from jax.custom_derivatives import CustomVJPPrimal

from minixla.core.errors import MinixlaError
from minixla.core.nesting import nested
from minixla.core.shapes import AnyShape, shape_of_data
from minixla.core.state import at_own_lines
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, shape_of
from minixla.engine.float0 import is_float0
from minixla.engine.random_keys import flatten, without_keys
from minixla.transforms import arguments, custom_calls
from minixla.transforms.arguments import Arguments, misfit
from minixla.transforms.gradients import derivative_of
from minixla.transforms.places import check_leaves


def stop_gradient(x: Any) -> Any:
    """`x` with no derivative (JAX: lax.stop_gradient).

    Args:
        x: a pytree of arrays; leaves that are no arrays are passed through.
    """

    def stop(leaf: Any) -> Any:
        is_array = isinstance(leaf, Tracer) or shape_of_data(leaf) is not None
        return custom_calls.StopGradient()(leaf) if is_array else leaf

    return jax.tree.map(stop, x)


class _Custom:
    """What custom_jvp and custom_vjp share: argument handling."""

    __name__: str
    _operation: ClassVar[type[custom_calls.CustomDerivativeCall]]
    _definition: ClassVar[str]

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Any = (),
    ) -> None:
        # It takes over what `fun` has for attributes, which may be one of these itself.
        arguments.named_after(self, arguments.checked_function(fun, type(self).__name__))
        self.fun, self._has_rule, self.symbolic_zeros = fun, False, False
        named = _positions_of(type(self).__name__, fun, nondiff_argnames)
        is_one = not isinstance(nondiff_argnums, Iterable)
        numbers = (nondiff_argnums,) if is_one else nondiff_argnums
        self.nondiff_argnums = (*numbers, *[n for n in named if n not in numbers])

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        name = type(self).__name__
        if not self._has_rule:
            problem = f"{getattr(self.fun, '__name__', self.fun)!r} has no derivative rule"
            raise misfit(name, problem, advice=f"Define it with {self._definition}.")
        bound = self._bound(args, kwargs)
        numbers = sorted(set(arguments.positions(self.nondiff_argnums, len(bound), name)))
        given = Arguments.besides(name, self.fun, bound, None, numbers)
        function = _Flat(self, {number: bound[number] for number in numbers}, given.tree)
        try:
            outputs = self._operation(function)(*given.leaves)
        except MinixlaError:
            check_leaves(name, given.leaves, given.where())
            raise
        return jax.tree.unflatten(function.result_tree, outputs)

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in."""
        name = type(self).__name__
        try:
            signature = inspect.signature(self.fun)
        except (TypeError, ValueError):
            return tuple(args)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            problem = f"the arguments do not fit {self.fun.__name__}{signature}"
            raise misfit(name, problem, [str(error)]) from None
        bound.apply_defaults()
        shown = [f"{key} = {kwargs[key]!r}" for key in bound.kwargs if key in kwargs]
        if shown:
            problem = "keyword-only arguments are not supported"
            raise misfit(name, problem, shown, "Make them positional, or close over them.")
        return bound.args


def _positions_of(subject: str, fun: Any, names: Sequence[str] | str) -> tuple[int, ...]:
    """Where parameters stand that are named, and can be given by position."""
    listed = [names] if isinstance(names, str) else list(names)
    parameters = inspect.signature(fun).parameters if listed else {}
    positional = [name for name, each in parameters.items() if each.kind <= each.VAR_POSITIONAL]
    for name in listed:
        if name not in positional:
            problem = f"nondiff_argnames names {name!r}, which is no positional parameter"
            shown = [f"the function takes {inspect.signature(fun)}"]
            raise misfit(subject, problem, shown, "Name a parameter that can be given by position.")
    return tuple([positional.index(name) for name in listed])


class _Flat:
    """One call's function, and its rules, on flat sequences of values.

    Those of the same function at the same arguments are equal: so are graphs that hold them.
    """

    def __init__(self, custom: Any, nondiff: dict[int, Any], tree: Any) -> None:
        self.custom, self.nondiff, self.tree = custom, nondiff, tree
        #: The structure of the result, once the function or its rule has run.
        self.result_tree: Any = None
        self.name = getattr(custom.fun, "__name__", "custom")

    def __call__(self, *operands: Any) -> Sequence[Any]:
        with at_own_lines(), nested():
            return self._flat_result(self.custom.fun(*self._arguments(operands)))

    def _arguments(self, operands: Sequence[Any]) -> list[Any]:
        """All arguments in their places."""
        merged = list(jax.tree.unflatten(self.tree, operands))
        for number, value in self.nondiff.items():
            merged.insert(number, value)
        return merged

    def _flat_result(self, result: Any) -> Sequence[Any]:
        outputs, self.result_tree = flatten(result)
        return outputs

    def _instantiated(self, derivatives: Sequence[Any], shapes: Iterable[AnyShape]) -> list[Any]:
        """Tangents or cotangents as a user's rule gets them: zeros are arrays, or None."""
        if self.custom.symbolic_zeros:
            return list(derivatives)
        pairs = zip(derivatives, shapes, strict=True)
        return [derivative_of(shape, None) if each is None else each for each, shape in pairs]

    def jvp(self, primals: Any, tangents: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        given = self._instantiated(tangents, map(shape_of, primals))
        with at_own_lines():
            both = [jax.tree.unflatten(self.tree, each) for each in (primals, given)]
            pair = self.custom.jvp(*self.nondiff.values(), *both)
        result, tangent = _several("custom_jvp", 2, "a pair (result, tangent)", pair)
        outputs = self._flat_result(result)
        return outputs, _matching("custom_jvp", "tangent", tangent, self.result_tree)

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[Sequence[Any], Any]:
        if self.custom.symbolic_zeros:
            operands = list(map(CustomVJPPrimal, operands, active))
        with at_own_lines():
            pair = self.custom.fwd(*self._arguments(operands))
        result, residuals = _several("custom_vjp", 2, "a pair (result, residuals) from fwd", pair)
        return self._flat_result(result), residuals

    def backward(self, residuals: Any, cotangents: Any, shapes: Any) -> Sequence[Any]:
        cotangent = jax.tree.unflatten(self.result_tree, self._instantiated(cotangents, shapes))
        with at_own_lines():
            found = self.custom.bwd(*self.nondiff.values(), residuals, cotangent)
        parts = self.tree.children()
        wanted = f"a tuple of {len(parts)} cotangents from bwd"
        pairs = zip(_several("custom_vjp", len(parts), wanted, found), parts, strict=True)
        return [leaf for pair in pairs for leaf in _matching("custom_vjp", "cotangent", *pair)]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        is_alike = self.custom is other.custom and self.tree == other.tree
        return is_alike and all(map(_same, self.nondiff.values(), other.nondiff.values()))

    def __hash__(self) -> int:
        return hash((id(self.custom), self.tree))


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, (np.ndarray, jax.Array, Tracer)):
        return False
    return bool(one == other)


class custom_jvp(_Custom):
    """A function with a forward derivative rule of the user's (JAX: custom_jvp).

    Reverse mode transposes the rule. Define it with `defjvp` or `defjvps`.

    Args:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are no arrays; the rule gets them first.
        nondiff_argnames: names of such arguments.
    """

    _operation = custom_calls.CustomJvpCall
    _definition = "f.defjvp(rule)"
    jvp: Callable[..., Any]

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule `jvp(*nondiff, primals, tangents) -> (result, tangent)`; returns it.

        With `symbolic_zeros`, a tangent that is zero reaches the rule as None.
        """
        self.jvp, self.symbolic_zeros, self._has_rule = jvp, symbolic_zeros, True
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets one rule for each argument, `rule(tangent, result, *primals)`; None means zero.

        Raises:
            TransformError: the function has nondiff_argnums; use `defjvp`.
        """
        if self.nondiff_argnums:
            problem = "defjvps does not go with nondiff_argnums"
            shown = [f"nondiff_argnums = {self.nondiff_argnums}"]
            raise misfit("custom_jvp", problem, shown, "Define one rule with defjvp.")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            result = self(*primals)
            pairs = zip(jvps, tangents, strict=True)
            parts = [each(tangent, result, *primals) for each, tangent in pairs if each is not None]
            if not parts:
                return result, None
            return result, jax.tree.map(lambda *terms: reduce(operator.add, terms), *parts)

        self.defjvp(rule)


class custom_vjp(_Custom):
    """A function with a reverse derivative rule of the user's (JAX: custom_vjp).

    Args:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are no arrays: first for `bwd`, in place for
            `fwd`.
        nondiff_argnames: names of such arguments.
    """

    _operation = custom_calls.CustomVjpCall
    _definition = "f.defvjp(fwd, bwd)"
    fwd: Callable[..., Any]
    bwd: Callable[..., Any]

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rules.

        Args:
            fwd: takes the arguments, returns `(result, residuals)`.
            bwd: `bwd(*nondiff, residuals, cotangent)` returns a tuple with a cotangent (or None
                for zero) for each differentiable argument.
            symbolic_zeros: whether a cotangent that is zero reaches `bwd` as None, and arrays
                reach `fwd` as `jax.custom_derivatives.CustomVJPPrimal`, which tells in
                `perturbed` whether the array is differentiated and holds it in `value`.
            optimize_remat: JAX's; it changes nothing here.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self._has_rule = symbolic_zeros, True


def _matching(subject: str, what: str, given: Any, tree: Any) -> Sequence[Any]:
    """The leaves of `given` for those of `tree`; None in it stands for a subtree of zeros."""
    leaves, own = jax.tree.flatten(given, is_leaf=lambda x: x is None)
    tree = without_keys(tree)
    try:
        parts = own.flatten_up_to(jax.tree.unflatten(tree, range(tree.num_leaves)))
        structures = list(map(jax.tree.structure, parts))
        for leaf, structure in zip(leaves, structures, strict=True):
            if leaf is not None and structure != jax.tree.structure(0):
                raise ValueError(f"an array stands where the value has {structure}")
    except ValueError as error:
        problem = f"the rule returned a {what} of another structure"
        shown = [f"{what}: {own}", f"wanted: {tree}", str(error).splitlines()[0]]
        advice = f"Return a {what} like the value that it belongs to (None for zero)."
        raise misfit(subject, problem, shown, advice) from None
    pairs = zip([None if is_float0(leaf) else leaf for leaf in leaves], structures, strict=True)
    return [leaf for leaf, structure in pairs for _ in range(structure.num_leaves)]


def _several(subject: str, count: int, wanted: str, given: Any) -> Sequence[Any]:
    """What a rule returned, which must be so many values."""
    if isinstance(given, (tuple, list)) and len(given) == count:
        return given
    problem, shown = "the rule returned something else than it should", type(given).__name__
    raise misfit(subject, problem, [f"it returned {shown}"], f"Return {wanted}.")
