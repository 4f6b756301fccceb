"""custom_jvp, custom_vjp and stop_gradient: user-defined derivatives."""

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, cast

import jax
import numpy as np
from jax.custom_derivatives import CustomVJPPrimal

from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import MinixlaError
from minixla.core.shapes import AnyShape, shape_of_data
from minixla.core.state import at_own_lines
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, nested, shape_of
from minixla.engine.float0 import is_float0
from minixla.engine.random_keys import flatten, without_keys
from minixla.engine.structures import LEAF, PyTreeDef, subtrees
from minixla.transforms import arguments, custom_calls
from minixla.transforms.arguments import Arguments, misfit
from minixla.transforms.gradients import derivative_of
from minixla.transforms.pytree_paths import check_leaves, parameters_of
from minixla.transforms.typed_functions import Function, Numbers, Parameters, Result, Wrapper
from minixla.typing import Array, ArrayLike, PyTree


def stop_gradient(x: Result) -> Result:
    """Return `x` without a derivative (JAX: lax.stop_gradient).

    Args:
        x: a pytree of arrays; leaves that are not arrays are unchanged.

    Returns:
        A pytree like `x`.

    Example:
        >>> mx.grad(lambda x: x * mx.stop_gradient(x))(3.0)
        Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: ArrayLike) -> ArrayLike:
        is_array = isinstance(leaf, Tracer) or shape_of_data(leaf) is not None
        return custom_calls.StopGradient()(leaf) if is_array else leaf

    return jax.tree.map(stop, x)


class _Rules:
    """A function and its rules. JAX keeps these with traced programs, but not the `_Custom`."""

    def __init__(self, fun: Function, subject: str) -> None:
        self.fun, self.subject, self.symbolic_zeros = fun, subject, False
        self.jvp: Any = None
        self.fwd: Any = None
        self.bwd: Any = None


class _Custom(Generic[Parameters, Result]):
    """Base class of custom_jvp and custom_vjp, which handles arguments."""

    __name__: str
    _operation: ClassVar[type[custom_calls.CustomDerivativeCall]]
    _definition: ClassVar[str]

    @checks_kinds
    def __init__(
        self,
        fun: Callable[Parameters, Result],
        nondiff_argnums: Numbers = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        # It takes over the attributes of `fun`, which may be a custom function itself.
        subject = type(self).__name__
        arguments.named_after(self, arguments.checked_function(fun, subject))
        self.fun, self.subject, self._has_rule = fun, subject, False
        self._rules = _Rules(fun, subject)
        arguments.check_marks(subject, fun, nondiff_argnums=nondiff_argnums)
        named = _positions_of(subject, fun, nondiff_argnames)
        numbers = nondiff_argnums if isinstance(nondiff_argnums, Iterable) else (nondiff_argnums,)
        self.nondiff_argnums = (*numbers, *[n for n in named if n not in numbers])

    @api_boundary
    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call the function."""
        name = self.subject
        if not self._has_rule:
            problem = f"{getattr(self.fun, '__name__', self.fun)!r} has no derivative rule"
            raise misfit(name, problem, advice=f"Define it with {self._definition}.")
        bound = self._bound(args, kwargs)
        numbers = sorted(arguments.positions(self.nondiff_argnums, len(bound), name))
        call = Arguments.besides(name, self.fun, bound, None, numbers)
        function = _Flat(self._rules, {number: bound[number] for number in numbers}, call.tree)
        try:
            outputs = self._operation(function)(*call.leaves)
        except MinixlaError:
            check_leaves(name, call.leaves, call.where())
            raise
        return jax.tree.unflatten(function.result_tree, outputs)

    def _bound(self, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> tuple[PyTree, ...]:
        """Return all arguments by position, including defaults."""
        try:
            signature = inspect.signature(self.fun)
        except (TypeError, ValueError):
            return tuple(args)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            problem = f"the arguments do not match {self.fun.__name__}{signature}"
            raise misfit(self.subject, problem, [str(error)]) from None
        bound.apply_defaults()
        details = [f"{key} = {kwargs[key]!r}" for key in bound.kwargs if key in kwargs]
        if details:
            problem = "keyword-only arguments are not supported"
            raise misfit(
                self.subject, problem, details, "Make them positional, or close over them."
            )
        return bound.args


def _positions_of(subject: str, fun: Function, names: Sequence[str] | str) -> tuple[int, ...]:
    """Return the positions of named parameters, which must be positional."""
    listed = [names] if isinstance(names, str) else names
    positional = [
        parameter.name
        for parameter in parameters_of(fun)
        if parameter.kind <= parameter.VAR_POSITIONAL
    ]
    for name in listed:
        if name not in positional:
            problem = f"nondiff_argnames has {name!r}, which is not a positional parameter"
            details = [f"the function takes {inspect.signature(fun)}"]
            raise misfit(
                subject, problem, details, "Name a parameter that can be passed by position."
            )
    return tuple([positional.index(name) for name in listed])


class _Flat:
    """A call's function and rules on flat sequences; equal for equal calls, like their graphs."""

    def __init__(self, rules: _Rules, nondiff: dict[int, object], tree: PyTreeDef) -> None:
        self.rules, self.nondiff, self.tree = rules, nondiff, tree
        #: The structure of the result, once the function or its rule has run.
        self.result_tree: Any = None
        self.name = getattr(rules.fun, "__name__", "custom")

    def __call__(self, *operands: Array) -> Sequence[Array]:
        with at_own_lines(), nested():
            return self._leaves(self.rules.fun(*self._arguments(operands)))

    def _arguments(self, operands: Sequence[object]) -> list[PyTree]:
        merged = list(jax.tree.unflatten(self.tree, operands))
        for number, value in self.nondiff.items():
            merged.insert(number, value)
        return merged

    def _leaves(self, result: PyTree) -> Sequence[Array]:
        leaves, self.result_tree = flatten(result)
        return leaves

    def _instantiated(
        self, derivatives: Sequence[Array | None], shapes: Iterable[AnyShape]
    ) -> list[Array | None]:
        """Return tangents or cotangents for a user's rule: zeros are arrays, or None."""
        if self.rules.symbolic_zeros:
            return list(derivatives)
        pairs = zip(derivatives, shapes, strict=True)
        return [
            derivative_of(shape, None) if tangent is None else tangent for tangent, shape in pairs
        ]

    def jvp(
        self, primals: Sequence[Array], tangents: Sequence[Array | None]
    ) -> tuple[Sequence[Array], Sequence[Array | None]]:
        instantiated = self._instantiated(tangents, map(shape_of, primals))
        both = [jax.tree.unflatten(self.tree, leaves) for leaves in (primals, instantiated)]
        call_arguments, wanted = (*self.nondiff.values(), *both), "a pair (result, tangent)"
        result, tangent = self._asked(self.rules.jvp, call_arguments, 2, wanted)
        return self._leaves(result), self._matching("tangent", tangent, self.result_tree)

    def forward(
        self, operands: Sequence[Array], active: Sequence[bool]
    ) -> tuple[Sequence[Array], PyTree]:
        values: Sequence[object] = operands
        if self.rules.symbolic_zeros:
            values = list(map(CustomVJPPrimal, operands, active))
        call_arguments, wanted = self._arguments(values), "a pair (result, residuals) from fwd"
        result, residuals = self._asked(self.rules.fwd, call_arguments, 2, wanted)
        return self._leaves(result), residuals

    def backward(
        self, residuals: PyTree, cotangents: Sequence[Array | None], shapes: Sequence[AnyShape]
    ) -> Sequence[Array | None]:
        cotangent = jax.tree.unflatten(self.result_tree, self._instantiated(cotangents, shapes))
        parts, call_arguments = self.tree.children(), (*self.nondiff.values(), residuals, cotangent)
        wanted = f"a tuple of {len(parts)} cotangents from bwd"
        pairs = zip(
            self._asked(self.rules.bwd, call_arguments, len(parts), wanted), parts, strict=True
        )
        return [leaf for pair in pairs for leaf in self._matching("cotangent", *pair)]

    def _asked(
        self, rule: Function, call_arguments: Sequence[PyTree], count: int, wanted: str
    ) -> Sequence[PyTree]:
        """Call a user's rule, and check that it returns `count` values."""
        with at_own_lines():
            answer = rule(*call_arguments)
        if isinstance(answer, (tuple, list)) and len(answer) == count:
            return answer
        problem = "the rule returned an invalid result"
        type_name = type(answer).__name__
        raise misfit(self.rules.subject, problem, [f"it returned {type_name}"], f"Return {wanted}.")

    def _matching(self, what: str, answer: PyTree, tree: PyTreeDef) -> Sequence[Array | None]:
        """Match the leaves of a rule's result to `tree`; None in it is a subtree of zeros."""
        leaves, own = jax.tree.flatten(answer, is_leaf=lambda x: x is None)
        tree = without_keys(tree)
        try:
            structures = subtrees(own, tree)
            for leaf, structure in zip(leaves, structures, strict=True):
                if leaf is not None and structure != LEAF:
                    raise ValueError(f"found an array, but the value has {structure}")
        except ValueError as error:
            problem = f"the structure of the rule's {what} must match"
            details = [f"{what}: {own}", f"expected: {tree}", str(error).splitlines()[0]]
            advice = f"Return a {what} with the structure of its value (None for zero)."
            raise misfit(self.rules.subject, problem, details, advice) from None
        pairs = zip([None if is_float0(x) else x for x in leaves], structures, strict=True)
        return [leaf for leaf, structure in pairs for _ in range(structure.num_leaves)]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or self.rules is not other.rules:
            return False
        values = self.nondiff.values(), other.nondiff.values()
        return self.tree == other.tree and all(map(_same, *values))

    def __hash__(self) -> int:
        return hash((id(self.rules), self.tree))


def _same(one: object, other: object) -> bool:
    is_array = isinstance(one, (np.ndarray, jax.Array, Tracer))
    return one is other or (type(one) is type(other) and not is_array and bool(one == other))


class custom_jvp(_Custom[Parameters, Result]):
    """A function with a custom forward derivative rule (JAX: custom_jvp).

    Reverse mode transposes the rule. Define it with `defjvp` or `defjvps`.

    Args:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are not arrays; the rule gets them first.
        nondiff_argnames: names of these arguments.
    """

    _operation = custom_calls.CustomJvpCall
    _definition = "f.defjvp(rule)"
    jvp: Function

    @checks_kinds
    def defjvp(self, jvp: Wrapper, symbolic_zeros: bool = False) -> Wrapper:
        """Set the rule `jvp(*nondiff, primals, tangents) -> (result, tangent)`, and return it.

        With `symbolic_zeros`, the rule gets None for a tangent that is zero.
        """
        self.jvp = self._rules.jvp = arguments.checked_function(jvp, "custom_jvp.defjvp")
        self._rules.symbolic_zeros = symbolic_zeros
        self._has_rule = True
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Set one rule for each argument, `rule(tangent, result, *primals)`; None means zero.

        Raises:
            TransformError: the function has nondiff_argnums; use `defjvp`.
        """
        if self.nondiff_argnums:
            problem = "defjvps does not support nondiff_argnums"
            details = [f"nondiff_argnums = {self.nondiff_argnums}"]
            raise misfit("custom_jvp", problem, details, "Define one rule with defjvp.")
        self._has_rule = True
        function = cast(Function, copy.copy(self))  # the rule must not refer to `self`

        def rule(primals: Sequence[PyTree], tangents: Sequence[PyTree]) -> tuple[PyTree, PyTree]:
            result = function(*primals)
            pairs = zip(jvps, tangents, strict=True)
            parts = [rule(tangent, result, *primals) for rule, tangent in pairs if rule is not None]
            if not parts:
                return result, None
            return result, jax.tree.map(lambda *terms: sum(terms[1:], terms[0]), *parts)

        self.defjvp(rule)


class custom_vjp(_Custom[Parameters, Result]):
    """A function with a custom reverse derivative rule (JAX: custom_vjp).

    Args:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are not arrays. `bwd` gets them first, `fwd` in
            their positions.
        nondiff_argnames: names of these arguments.
    """

    _operation = custom_calls.CustomVjpCall
    _definition = "f.defvjp(fwd, bwd)"
    fwd: Function
    bwd: Function

    @checks_kinds
    def defvjp(
        self,
        fwd: Function,
        bwd: Function,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the forward and the backward rule.

        Args:
            fwd: takes the arguments and returns `(result, residuals)`.
            bwd: `bwd(*nondiff, residuals, cotangent)` returns a tuple with a cotangent (or None
                for zero) for each differentiable argument.
            symbolic_zeros: whether `bwd` gets None for a cotangent that is zero, and `fwd` gets
                arrays as `jax.custom_derivatives.CustomVJPPrimal`. Its `perturbed` states whether
                the array is differentiated, and `value` is the array.
            optimize_remat: accepted for compatibility with JAX, without effect.
        """
        self.fwd, self.bwd = (
            arguments.checked_function(rule, "custom_vjp.defvjp") for rule in (fwd, bwd)
        )
        self._rules.fwd, self._rules.bwd = self.fwd, self.bwd
        self._rules.symbolic_zeros, self._has_rule = symbolic_zeros, True
