"""A function and its derivatives as programs to be checked, and the same of a JAX function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr, tree_unflatten

import minixla as mx
from minixla.core.errors import DerivativeError, TransformError, explain, too_large
from minixla.core.graph import Graph
from minixla.core.shapes import ADDRESS_SPACE, Shape
from minixla.core.tracing import shape_of
from minixla.engine.random_keys import flatten, leaf_paths
from minixla.tools.differences import random_direction
from minixla.tools.graph_parts import inexact_part, inlined, is_inexact

_SUBJECT = "cross_check"

#: What an evaluator makes of a program: its results, or why there are none.
Opinion = list[np.ndarray] | str
#: A program with its operands, or why there is none.
Program = tuple[Graph, list[np.ndarray]] | str
#: The kinds of programs of a check: a function, and its derivatives along directions.
KINDS = {"result": "function", "jvp": "forward derivative", "vjp": "reverse derivative"}


class CheckedFunction:
    """A function at given arguments, its derivatives along fixed random directions.

    Attributes:
        graph: the function of the leaves of its arguments, as traced.
        operands: the leaves, arrays of the types that the graph takes.
        input_names, output_names: what reports call the leaves of arguments and results.
        moving: which leaves of the arguments are floats or complex numbers.
        directions: for "jvp" a direction for each of these, for "vjp" one for each of the floats
            and complex numbers among the leaves of the results.
        has_derivatives: whether there are such among both.
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
        #: The program of a kind, calls unfolded.
        self.program = cache(self._made)
        self.graph = mx.make_graph(flat)(*leaves)
        self._refuse()
        shapes: list[Any] = [*self.graph.input_shapes, *self.graph.output_shapes]
        pairs = zip(leaves, shapes, strict=False)
        self.operands = [np.asarray(leaf).astype(shape.dtype) for leaf, shape in pairs]
        self.moving = list(map(is_inexact, self.graph.input_shapes))
        generator = np.random.default_rng(0)
        sides = {"jvp": shapes[: len(leaves)], "vjp": shapes[len(leaves) :]}
        self.directions = {
            kind: [random_direction(generator, s).astype(s.dtype) for s in filter(is_inexact, side)]
            for kind, side in sides.items()
        }
        self.has_derivatives = all(self.directions.values())

    def _refuse(self) -> None:
        """Raises TransformError where the function cannot be checked."""
        names = [*self.input_names, *self.output_names]
        shapes = [*self.graph.input_shapes, *self.graph.output_shapes]
        for name, shape in zip(names, shapes, strict=True):
            if not isinstance(shape, Shape) or shape.is_dynamic:
                problem = f"{name} is of shape {shape}, and only arrays can be compared"
                advice = "Take tuples apart, leave tokens out, and set dynamic sizes to bounds."
                raise explain(TransformError, _SUBJECT, problem, [], advice)
        for step in inlined(self.graph).instructions:
            for shape in step.shapes:
                if isinstance(shape, Shape) and shape.nbytes > ADDRESS_SPACE:
                    # Though no evaluator may need all of it.
                    raise too_large(_SUBJECT, f"{shape} does not fit into any memory")
            if step.op.spans_devices:
                problem = f"{step.op.builder_name} runs on several devices"
                advice = "Check what each device computes; mx.simulate runs processes in NumPy."
                given = [f"called at {step.source}"]
                raise explain(TransformError, _SUBJECT, problem, given, advice)
        effects = [step for step in self.graph.silent().instructions if step.has_side_effect]
        if effects:
            problem = "the function has side effects, so that it cannot be run several times"
            given = [f"{step.op.builder_name}, called at {step.source}" for step in effects[:4]]
            advice = "Check the parts without them."
            raise explain(TransformError, _SUBJECT, problem, given, advice)

    def named_outputs(self, kind: str) -> list[tuple[str, Any]]:
        """What the outputs of a program are called in reports, and their shapes."""
        if kind == "vjp":
            names, shapes, what = self.input_names, self.graph.input_shapes, "gradient of "
        else:
            names, shapes = self.output_names, self.graph.output_shapes
            what = "tangent of " if kind == "jvp" else ""
        pairs = zip(names, shapes, strict=True)
        return [(what + name, s) for name, s in pairs if kind == "result" or is_inexact(s)]

    def _made(self, kind: str) -> Program:
        graph, operands = self.graph, [*self.operands, *self.directions.get(kind, ())]

        def derivative(*given: Any) -> list[Any]:
            count = len(self.operands)
            return self._derived(kind, mx, self._flat, given[:count], given[count:])

        try:
            graph = graph if kind == "result" else mx.make_graph(derivative)(*operands)
        except DerivativeError as error:
            return str(error).splitlines()[0]
        return inlined(graph.silent()).pruned(), operands

    def _derived(
        self, kind: str, package: Any, flat: Any, given: Sequence[Any], directions: Sequence[Any]
    ) -> list[Any]:
        """A derivative, by ours or by JAX's package, of a function of the leaves."""
        part = inexact_part(flat, self.moving, given)
        point = tuple(compress(given, self.moving))
        if kind == "jvp":
            return list(package.jvp(part, point, tuple(directions))[1])
        return list(package.vjp(part, *point)[1](list(directions)))

    def run_jax(self, against: Callable[..., Any], gradients: bool) -> dict[str, Opinion]:
        """What a JAX function gives for the same arguments and directions, by kind of program."""

        def flat(*given: Any) -> list[Any]:
            return flatten(against(*tree_unflatten(self._tree, given)))[0]

        def everything(kinds: Sequence[str], given: Any, directions: Any) -> dict[str, list[Any]]:
            found = {"result": flat(*given)}
            self._check_alike(found["result"])
            for kind in kinds:
                found[kind] = self._derived(kind, jax, flat, given, directions[kind])
            return found

        run = jax.jit(everything, static_argnums=0)
        kinds = ("jvp", "vjp") if gradients and self.has_derivatives else ()
        found: dict[str, Opinion] = {}
        with jax.enable_x64(True):
            try:
                results = run(kinds, self.operands, self.directions)
            except TypeError as error:
                if not kinds or "custom_vjp" not in str(error):
                    raise
                found["jvp"] = str(error).splitlines()[0]
                results = run(("vjp",), self.operands, self.directions)
        for kind, arrays in results.items():
            found[kind] = list(map(np.asarray, arrays))
        return found

    def _check_alike(self, results: Sequence[Any]) -> None:
        theirs = [shape_of(each, _SUBJECT) for each in results]
        ours = list(self.graph.output_shapes)
        if theirs != ours:
            problem = "the JAX function gives other results than the function"
            sides = {"ours": ours, "JAX's": theirs}
            given = [f"{name}: {', '.join(map(str, each))}" for name, each in sides.items()]
            advice = "Both must give as many arrays, of the same types and shapes."
            raise explain(TransformError, _SUBJECT, problem, given, advice)
