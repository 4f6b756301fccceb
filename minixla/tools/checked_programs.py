"""A function and its derivatives as programs to be checked, and the same of a JAX function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import keystr, tree_unflatten

from minixla.core.errors import DerivativeError, TransformError, explain, too_large
from minixla.core.graph import Graph, Value
from minixla.core.linear import spread
from minixla.core.shapes import ADDRESS_SPACE, Shape
from minixla.core.tracing import shape_of
from minixla.engine.random_keys import flatten, leaf_paths
from minixla.tools.check_report import Row
from minixla.tools.differences import random_direction
from minixla.tools.graph_parts import inlined, is_inexact
from minixla.transforms.evaluation import make_graph
from minixla.transforms.gradients import jvp, vjp

_SUBJECT = "cross_check"

#: What an evaluator makes of a program: its results, or why there are none.
Opinion = list[np.ndarray] | str


class CheckedProgram(NamedTuple):
    """One program of a check.

    Attributes:
        kind: "result", "jvp" or "vjp".
        graph: what it computes, calls unfolded.
        operands: its inputs.
        names: what the report calls its outputs.
    """

    kind: str
    graph: Graph
    operands: list[np.ndarray]
    names: list[str]

    def named_outputs(self) -> list[tuple[str, Value]]:
        """What each output is called, and it."""
        return list(zip(self.names, self.graph.outputs, strict=True))


class Missing(NamedTuple):
    """A derivative that the function does not have.

    Attributes:
        names: what the report calls its outputs.
        shapes: their shapes.
        why: there is none.
    """

    names: list[str]
    shapes: list[Any]
    why: str

    def rows(self) -> list[Row]:
        """What the report says of it."""
        pairs = zip(self.names, map(str, self.shapes), strict=True)
        return [Row.unasked(*pair, "all", self.why) for pair in pairs]


class CheckedFunction:
    """A function at given arguments, its derivatives along fixed random directions.

    Attributes:
        graph: the function of the leaves of its arguments, as traced.
        operands: the leaves, arrays of the types that the graph takes.
        input_names, output_names: what reports call the leaves of arguments and results.
        moving: which leaves of the arguments are floats or complex numbers.
        answering: which leaves of the results are.
        tangents: a direction for each moving leaf.
        cotangents: one for each answering leaf of the results.
    """

    def __init__(self, fun: Callable[..., Any], args: Sequence[Any]) -> None:
        leaves, self._tree = flatten(tuple(args))
        self.input_names = [f"args{keystr(path)}" for path in leaf_paths(tuple(args))]
        self.output_names: list[str] = []

        def flat(*given: Any) -> list[Any]:
            results = fun(*tree_unflatten(self._tree, given))
            self.output_names[:] = [f"result{keystr(path)}" for path in leaf_paths(results)]
            return flatten(results)[0]

        flat.__name__ = getattr(fun, "__name__", "function")
        self._flat = flat
        self._programs: dict[str, CheckedProgram | Missing] = {}
        self.graph = make_graph(flat)(*leaves)
        self._refuse()
        self.operands = [
            np.asarray(leaf).astype(shape.dtype)
            for leaf, shape in zip(leaves, self._arrays(self.graph.input_shapes), strict=True)
        ]
        self.moving = [is_inexact(shape) for shape in self.graph.input_shapes]
        self.answering = [is_inexact(shape) for shape in self.graph.output_shapes]
        generator = np.random.default_rng(0)
        self.tangents = self._directions(generator, self.graph.input_shapes)
        self.cotangents = self._directions(generator, self.graph.output_shapes)

    def _refuse(self) -> None:
        for name, shape in zip(
            [*self.input_names, *self.output_names],
            [*self.graph.input_shapes, *self.graph.output_shapes],
            strict=True,
        ):
            if not isinstance(shape, Shape) or shape.is_dynamic:
                problem = f"{name} is of shape {shape}, and only arrays can be compared"
                advice = "Take tuples apart, leave tokens out, and set dynamic sizes to bounds."
                raise explain(TransformError, _SUBJECT, problem, [], advice)
        for step in inlined(self.graph).instructions:
            for shape in self._arrays(step.shapes):
                if shape.nbytes > ADDRESS_SPACE:  # though no evaluator may need all of it
                    raise too_large(_SUBJECT, f"{shape} does not fit into any memory")
            if step.op.spans_devices:
                problem = f"{step.op.builder_name} runs on several devices"
                advice = "Check what each device computes; mx.simulate runs processes in NumPy."
                given = [f"called at {step.source}"]
                raise explain(TransformError, _SUBJECT, problem, given, advice)
        if self.graph.silent().has_side_effect:
            effects = [step for step in self.graph.silent().instructions if step.has_side_effect]
            raise explain(
                TransformError,
                _SUBJECT,
                "the function has side effects, so that it cannot be run several times",
                [f"{step.op.builder_name}, called at {step.source}" for step in effects[:4]],
                "Check the parts without them.",
            )

    @staticmethod
    def _arrays(shapes: Sequence[Any]) -> list[Shape]:
        return [shape for shape in shapes if isinstance(shape, Shape)]

    def _directions(self, generator: np.random.Generator, shapes: Sequence[Any]) -> list[Any]:
        inexact = [shape for shape in shapes if is_inexact(shape)]
        return [random_direction(generator, each).astype(each.dtype) for each in inexact]

    @property
    def has_derivatives(self) -> bool:
        """Whether a result and an argument are floats or complex numbers."""
        return any(self.moving) and any(self.answering)

    def program(self, kind: str) -> CheckedProgram | Missing:
        """The program of a kind: "result", "jvp" or "vjp"."""
        if kind not in self._programs:
            make = {"result": self._function, "jvp": self._forward, "vjp": self._reverse}[kind]
            self._programs[kind] = make()
        return self._programs[kind]

    def _function(self) -> CheckedProgram:
        return self._program("result", self.graph, self.operands, self.output_names)

    def _forward(self) -> CheckedProgram | Missing:
        names = [f"tangent of {name}" for name in _chosen(self.output_names, self.answering)]
        shapes = _chosen(self.graph.output_shapes, self.answering)
        return self._derivative("jvp", self._pushed, jvp, self.tangents, names, shapes)

    def _reverse(self) -> CheckedProgram | Missing:
        names = [f"gradient of {name}" for name in _chosen(self.input_names, self.moving)]
        shapes = _chosen(self.graph.input_shapes, self.moving)
        return self._derivative("vjp", self._pulled, vjp, self.cotangents, names, shapes)

    def _derivative(
        self,
        kind: str,
        derive: Callable[..., Any],
        transform: Callable[..., Any],
        directions: Sequence[np.ndarray],
        names: list[str],
        shapes: list[Any],
    ) -> CheckedProgram | Missing:
        count = len(self.operands)

        def derivative(*given: Any) -> list[Any]:
            return derive(transform, self._flat, given[:count], given[count:])

        operands = [*self.operands, *directions]
        try:
            graph = make_graph(derivative)(*operands)
        except DerivativeError as error:
            return Missing(names, shapes, str(error).splitlines()[0])
        return self._program(kind, graph, operands, names)

    def _program(
        self, kind: str, graph: Graph, operands: Sequence[np.ndarray], names: Sequence[str]
    ) -> CheckedProgram:
        return CheckedProgram(kind, inlined(graph.silent()).pruned(), list(operands), list(names))

    def _pushed(self, push: Any, flat: Any, given: Sequence[Any], tangents: Sequence[Any]) -> Any:
        function, point = self._of_moving(flat, given)
        return list(push(function, tuple(point), tuple(tangents))[1])

    def _pulled(self, pull: Any, flat: Any, given: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        function, point = self._of_moving(flat, given)
        return list(pull(function, *point)[1](list(cotangents)))

    def _of_moving(
        self, flat: Callable[..., Any], given: Sequence[Any]
    ) -> tuple[Callable[..., list[Any]], list[Any]]:
        """The function of its float and complex leaves, and those."""

        def function(*moving: Any) -> list[Any]:
            results = flat(*spread(self.moving, moving, given))
            return _chosen(results, self.answering)

        return function, _chosen(given, self.moving)

    def run_jax(self, against: Callable[..., Any], gradients: bool) -> dict[str, Opinion]:
        """What a JAX function gives for the same arguments and directions, by kind of program.

        Raises:
            TransformError: its results differ in number, type or shape.
        """

        def flat(*given: Any) -> list[Any]:
            return flatten(against(*tree_unflatten(self._tree, given)))[0]

        def everything(
            has_forward: bool, given: Any, tangents: Any, cotangents: Any
        ) -> dict[str, list[Any]]:
            found = {"result": flat(*given)}
            self._check_alike(found["result"])
            if has_forward:
                found["jvp"] = self._pushed(jax.jvp, flat, given, tangents)
            if gradients and self.has_derivatives:
                found["vjp"] = self._pulled(jax.vjp, flat, given, cotangents)
            return found

        run = jax.jit(everything, static_argnums=0)
        operands = self.operands, self.tangents, self.cotangents
        has_forward = gradients and self.has_derivatives
        found: dict[str, Opinion] = {}
        with jax.enable_x64(True):
            try:
                results = run(has_forward, *operands)
            except TypeError as error:
                if not has_forward or "custom_vjp" not in str(error):
                    raise
                found["jvp"] = str(error).splitlines()[0]
                results = run(False, *operands)
        for kind, arrays in results.items():
            found[kind] = list(map(np.asarray, arrays))
        return found

    def _check_alike(self, results: Sequence[Any]) -> None:
        theirs = [shape_of(each, _SUBJECT) for each in results]
        ours = list(self.graph.output_shapes)
        if theirs != ours:
            raise explain(
                TransformError,
                _SUBJECT,
                "the JAX function gives other results than the function",
                [
                    f"ours: {', '.join(map(str, ours))}",
                    f"JAX's: {', '.join(map(str, theirs))}",
                ],
                "Both must give as many arrays, of the same types and shapes.",
            )


def _chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [value for value, flag in zip(values, flags, strict=True) if flag]
