"""custom_jvp, custom_vjp and stop_gradient: derivatives that the user defines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from minixla.core.attributes import Attribute, Instance, Optional
from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.errors import DerivativeError, TransformError, explain
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import instantiate
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, shape_of_data
from minixla.core.tracing import _state, bind, evaluate_graph, shape_of, trace_to_graph, under
from minixla.transforms.arguments import named_after
from minixla_ops.batching import batch_size, move_batch
from minixla_ops.calls import Call
from minixla_ops.elementwise import ALL, Unary
from minixla_ops.evaluation import reference_graph
from minixla_ops.rules import sum_over

__all__ = ["custom_jvp", "custom_vjp", "stop_gradient"]

FlatFunction = Callable[..., Sequence[Any]]


class StopGradient(Unary):
    """The operand itself, as a constant for derivatives. Not an operation of XLA: it prints as copy."""

    hlo_name = "copy"
    element_types = ALL
    zero_derivative = "it is what stop_gradient is for"

    def reference(self, operand: Any, **attributes: Any) -> Any:
        return operand

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        return operands

    def run(self, operand: Any) -> Any:
        return operand


_STOP_GRADIENT = StopGradient()


def stop_gradient(x: Any) -> Any:
    """`x` with no derivative (JAX: lax.stop_gradient).

    Args:
        x: a pytree of arrays; integers and other leaves are passed through.
    """

    def stop(leaf: Any) -> Any:
        if shape_of_data(leaf) is None and not hasattr(leaf, "_trace"):
            return leaf
        return bind(_STOP_GRADIENT, leaf)

    return tree_map(stop, x)


class _CustomCall(Operation):
    """Base class of calls with the user's own derivative rule.

    Where the current trace evaluates, the function runs in Python; in a graph it is a computation.

    Attributes:
        function: takes and returns flat sequences of values.
        computation: the Graph of the function, once staged.
        captured: how many leading operands are values that the function reads from outside.
    """

    hlo_name = "call"
    operand_names = ("operands...",)
    attributes: ClassVar[dict[str, Attribute]] = {
        "function": Attribute(),
        "rules": Attribute(),
        "computation": Optional(Instance(Graph)),
        "captured": Attribute(0),
    }

    def infer(
        self, shapes: tuple[AnyShape, ...], attributes: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        # Not cached: the cache would keep the user's functions alive.
        return self.shape(*shapes, **attributes), attributes

    def shape(self, *operands: AnyShape, computation: Graph | None, **_: Any) -> Any:
        assert computation is not None, "a staged call has a graph"
        return computation.output_shapes

    def stage_operands(
        self, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Operands and attributes for a graph: the function becomes a computation."""
        if attributes["computation"] is not None:
            return operands, attributes
        function = attributes["function"]
        shapes = [shape_of(operand) for operand in operands]
        graph, captured = trace_to_graph(function, shapes, getattr(function, "__name__", "custom"))
        staged = {**attributes, "computation": graph, "captured": len(captured)}
        return (*captured, *operands), staged

    def run(self, *operands: Any, function: FlatFunction, computation: Any, **_: Any) -> Any:
        if computation is not None:
            return tuple(evaluate_graph(computation, operands))
        return tuple(function(*operands))

    def reference(self, *operands: Any, computation: Graph, **_: Any) -> Any:
        return tuple(reference_graph(computation, operands))

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        *,
        computation: Graph,
        **_: Any,
    ) -> Sequence[str]:
        return Call.instance.stablehlo(emit, operands, shapes, results, computation=computation)  # type: ignore[attr-defined]

    def hlo(self, *shapes: Any, computation: Graph, **_: Any) -> dict[str, Any]:
        """The attributes that HLO shows."""
        return {"to_apply": computation}

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, Any]:
        size = batch_size(operands, dimensions)
        computation = attributes["computation"]
        function = attributes["function"]
        if computation is not None:
            function = _GraphFunction(computation)
        skipped = attributes["captured"]
        batched = {
            "function": _batched(function, dimensions, size),
            "rules": self.batch_rules(attributes["rules"], tuple(dimensions[skipped:]), size),
            "computation": None,
            "captured": 0,
        }
        if skipped:
            batched["function"] = _with_leading(batched["function"], operands[:skipped])
        results = bind(self, *operands[skipped:], **batched)
        return results, (0,) * len(results)

    def batch_rules(self, rules: Any, dimensions: tuple[int | None, ...], size: int) -> Any:
        """The user's rules over a batch."""
        raise NotImplementedError

    def refuse_captured(self, active: Sequence[bool], captured: int) -> None:
        """Raises DerivativeError where a value read from outside is being differentiated."""
        if any(active[:captured]):
            raise explain(
                DerivativeError,
                self.builder_name,
                "the function reads a value that is being differentiated",
                advice="A custom rule only knows the arguments: pass the value as an argument.",
            )


class _GraphFunction:
    """A graph as a flat function."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, *operands: Any) -> Sequence[Any]:
        return evaluate_graph(self._graph, operands)


def _with_leading(function: FlatFunction, leading: Sequence[Any]) -> FlatFunction:
    return lambda *operands: function(*leading, *operands)


def _batched(
    function: FlatFunction, dimensions: Sequence[int | None], size: int
) -> FlatFunction:
    """A flat function over a batch; all its results get the batch in front."""

    def over_batch(*operands: Any) -> Sequence[Any]:
        trace = BatchTrace(_state.trace, size)
        inputs = [
            operand if dimension is None else BatchTracer(trace, operand, dimension)
            for operand, dimension in zip(operands, dimensions, strict=True)
        ]
        with under(trace):
            outputs = function(*inputs)
        results = []
        for output in outputs:
            mine = type(output) is BatchTracer and output._trace is trace
            value, at = (output.value, output.dimension) if mine else (output, None)
            results.append(None if value is None else move_batch(value, at, 0, size))
        trace.alive = False
        return results

    return over_batch


class CustomJvpCall(_CustomCall):
    """A call of a function with a forward derivative rule. Not an operation of XLA: prints as call."""

    def forward(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        rules: FlatFunction,
        captured: int,
        **_: Any,
    ) -> tuple[Any, Any]:
        self.refuse_captured([tangent is not None for tangent in tangents], captured)
        primals, tangents = primals[captured:], tangents[captured:]
        given = [
            instantiate(tangent, primal) if has_tangent(primal) else None
            for tangent, primal in zip(tangents, primals, strict=True)
        ]
        outputs = rules(*primals, *given)
        count = len(outputs) // 2
        return tuple(outputs[:count]), tuple(outputs[count:])

    def batch_rules(self, rules: Any, dimensions: tuple[int | None, ...], size: int) -> Any:
        def rule(*arguments: Any) -> Sequence[Any]:
            # A tangent has its batch where it is, unless it is zero.
            tangents = arguments[len(dimensions) :]
            at = [None if t is None else d for t, d in zip(tangents, dimensions, strict=True)]
            return _batched(rules, (*dimensions, *at), size)(*arguments)

        return rule


class _VjpRules:
    """The two halves of a custom reverse derivative, on flat sequences."""

    def __init__(self, forward: FlatFunction, backward: Callable[..., Sequence[Any]]) -> None:
        #: operands -> (results, residuals)
        self.forward = forward
        #: (residuals, cotangents) -> a cotangent or None for each operand
        self.backward = backward


class CustomVjpCall(_CustomCall):
    """A call of a function with a reverse derivative rule. Not an operation of XLA: prints as call."""

    def forward(self, primals: Sequence[Any], tangents: Sequence[Any], **_: Any) -> Any:
        raise explain(
            DerivativeError,
            "custom_vjp",
            "a function with a custom_vjp rule cannot be differentiated forwards",
            advice="Use grad or vjp, or define the rule with mx.custom_jvp, which serves both.",
        )

    def linearize(
        self,
        operands: Sequence[Any],
        active: Sequence[bool],
        *,
        rules: _VjpRules,
        captured: int,
        **_: Any,
    ) -> tuple[Any, Callable[..., Any]]:
        self.refuse_captured(active, captured)
        results, residuals = rules.forward(*operands[captured:])

        def pullback(cotangents: Any) -> Sequence[Any]:
            given = [
                instantiate(cotangents.get(i), each) if has_tangent(each) else None
                for i, each in enumerate(results)
            ]
            return [None] * captured + list(rules.backward(residuals, given))

        return tuple(results), pullback

    def batch_rules(self, rules: Any, dimensions: tuple[int | None, ...], size: int) -> Any:
        def forward(*operands: Any) -> Any:
            counts = []

            def flat(*members: Any) -> Sequence[Any]:
                results, residuals = rules.forward(*members)
                leaves, tree = tree_flatten(residuals)
                counts.append((len(results), tree))
                return [*results, *leaves]

            everything = _batched(flat, dimensions, size)(*operands)
            count, tree = counts[0]
            return everything[:count], tree_unflatten(tree, everything[count:])

        def backward(residuals: Any, cotangents: Sequence[Any]) -> Sequence[Any]:
            leaves, tree = tree_flatten(residuals)
            at = [0] * len(leaves) + [None if c is None else 0 for c in cotangents]

            def flat(*members: Any) -> Sequence[Any]:
                own = tree_unflatten(tree, members[: len(leaves)])
                return rules.backward(own, members[len(leaves) :])

            found = _batched(flat, at, size)(*leaves, *cotangents)
            return [_from_front(c, d) for c, d in zip(found, dimensions, strict=True)]

        return _VjpRules(forward, backward)


def _from_front(cotangent: Any, dimension: int | None) -> Any:
    if cotangent is None:
        return None
    if dimension is None:  # every member shares the operand
        return sum_over(cotangent, [0])
    return move_batch(cotangent, 0, dimension, shape_of(cotangent).dimensions[0])  # type: ignore[union-attr]


_CUSTOM_JVP = CustomJvpCall()
_CUSTOM_VJP = CustomVjpCall()


class _Custom:
    """What custom_jvp and custom_vjp share: argument handling."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] | int = ()) -> None:
        self.fun = fun
        listed = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else nondiff_argnums
        self.nondiff_argnums = tuple(sorted(listed))
        named_after(self, fun)  # type: ignore[type-var]

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in."""
        try:
            signature = inspect.signature(self.fun)
        except (TypeError, ValueError):
            return tuple(args)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise explain(
                TransformError,
                type(self).__name__,
                "keyword-only arguments are not supported",
                [f"{name} = {value!r}" for name, value in bound.kwargs.items()],
                "Make them positional, or close over them.",
            )
        return bound.args

    def _split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        nondiff = [args[index] for index in self.nondiff_argnums]
        diff = [arg for index, arg in enumerate(args) if index not in self.nondiff_argnums]
        return nondiff, diff

    def _join(self, nondiff: Sequence[Any], diff: Sequence[Any]) -> list[Any]:
        merged = list(diff)
        for index, value in zip(self.nondiff_argnums, nondiff, strict=True):
            merged.insert(index, value)
        return merged


class custom_jvp(_Custom):  # noqa: N801 - JAX's name
    """A function with a forward derivative rule of the user's (JAX: custom_jvp).

    Reverse mode transposes the rule. Define it with `defjvp` or `defjvps`.

    Args:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are no arrays; the rule gets them first.
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] | int = ()) -> None:
        super().__init__(fun, nondiff_argnums)
        self.jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule `jvp(*nondiff, primals, tangents) -> (result, tangent)`; returns it.

        With `symbolic_zeros`, a tangent that is zero reaches the rule as None.
        """
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets one rule for each argument, `rule(tangent, result, *primals)`; None means zero."""

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            result = self(*primals)
            parts = [
                each(tangent, result, *primals)
                for each, tangent in zip(jvps, tangents, strict=True)
                if each is not None and tangent is not None
            ]
            total = parts[0] if parts else None
            for part in parts[1:]:
                total = tree_map(lambda x, y: x + y, total, part)
            return result, total

        self.defjvp(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise _no_rule("custom_jvp", self.fun, "f.defjvp(rule)")
        nondiff, diff = self._split(self._bound(args, kwargs))
        leaves, tree = tree_flatten(diff)
        trees: dict[str, Any] = {}

        def function(*flat: Any) -> Sequence[Any]:
            result = self.fun(*self._join(nondiff, tree_unflatten(tree, flat)))
            outputs, trees["result"] = tree_flatten(result)
            return outputs

        def rule(*flat: Any) -> Sequence[Any]:
            primals = tuple(tree_unflatten(tree, flat[: len(leaves)]))
            tangents = tuple(tree_unflatten(tree, flat[len(leaves) :]))
            assert self.jvp is not None
            pair = self.jvp(*nondiff, primals, tangents)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise _wrong_rule("custom_jvp", "a pair (result, tangent)", pair)
            outputs, trees["result"] = tree_flatten(pair[0])
            if pair[1] is None:
                return [*outputs, *[None] * len(outputs)]
            return [*outputs, *_matching("custom_jvp", "tangent", pair[1], trees["result"])]

        outputs = bind(
            _CUSTOM_JVP, *leaves, function=function, rules=rule, computation=None, captured=0
        )
        return tree_unflatten(trees["result"], outputs)


class custom_vjp(_Custom):  # noqa: N801 - JAX's name
    """A function with a reverse derivative rule of the user's (JAX: custom_vjp).

    Args:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are no arrays; the rules get them first
            (`bwd`) or in place (`fwd`).
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] | int = ()) -> None:
        super().__init__(fun, nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets the rules.

        Args:
            fwd: takes the arguments, returns `(result, residuals)`.
            bwd: `bwd(*nondiff, residuals, cotangent)` returns a tuple with a cotangent (or None
                for zero) for each differentiable argument.
        """
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise _no_rule("custom_vjp", self.fun, "f.defvjp(fwd, bwd)")
        fwd, bwd = self.fwd, self.bwd
        nondiff, diff = self._split(self._bound(args, kwargs))
        leaves, tree = tree_flatten(diff)
        trees: dict[str, Any] = {}

        def function(*flat: Any) -> Sequence[Any]:
            result = self.fun(*self._join(nondiff, tree_unflatten(tree, flat)))
            outputs, trees["result"] = tree_flatten(result)
            return outputs

        def forward(*flat: Any) -> tuple[Sequence[Any], Any]:
            pair = fwd(*self._join(nondiff, tree_unflatten(tree, flat)))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise _wrong_rule("custom_vjp", "a pair (result, residuals) from fwd", pair)
            outputs, trees["result"] = tree_flatten(pair[0])
            return outputs, pair[1]

        def backward(residuals: Any, cotangents: Sequence[Any]) -> Sequence[Any]:
            found = bwd(*nondiff, residuals, tree_unflatten(trees["result"], cotangents))
            if not isinstance(found, (tuple, list)) or len(found) != len(diff):
                raise _wrong_rule("custom_vjp", f"a tuple of {len(diff)} cotangents from bwd", found)
            flat: list[Any] = []
            for cotangent, argument in zip(found, diff, strict=True):
                own_leaves, own_tree = tree_flatten(argument)
                if cotangent is None:
                    flat.extend([None] * len(own_leaves))
                else:
                    flat.extend(_matching("custom_vjp", "cotangent", cotangent, own_tree))
            return [_without_float0(each) for each in flat]

        outputs = bind(
            _CUSTOM_VJP,
            *leaves,
            function=function,
            rules=_VjpRules(forward, backward),
            computation=None,
            captured=0,
        )
        return tree_unflatten(trees["result"], outputs)


def _without_float0(cotangent: Any) -> Any:
    name = getattr(getattr(cotangent, "dtype", None), "names", None)
    is_float0 = getattr(cotangent, "dtype", None) is not None and str(cotangent.dtype) == "[('float0', 'V')]"
    return None if is_float0 or name else cotangent


def _matching(subject: str, what: str, given: Any, tree: Any) -> Sequence[Any]:
    """The leaves of `given`, which may hold None where `tree` has a leaf."""
    leaves, own = tree_flatten(given, is_leaf=lambda x: x is None)
    if len(leaves) != tree.num_leaves:
        raise explain(
            TransformError,
            subject,
            f"the rule returned a {what} of another structure",
            [f"{what}: {own}", f"wanted: {tree}"],
            f"Return a {what} like the value that it belongs to (None for zero).",
        )
    return leaves


def _no_rule(subject: str, fun: Callable[..., Any], call: str) -> TransformError:
    return explain(
        TransformError,
        subject,
        f"{getattr(fun, '__name__', fun)!r} has no derivative rule",
        advice=f"Define it with {call}.",
    )


def _wrong_rule(subject: str, wanted: str, given: Any) -> TransformError:
    return explain(
        TransformError,
        subject,
        "the rule returned something else than it should",
        [f"it returned {type(given).__name__}"],
        f"Return {wanted}.",
    )
