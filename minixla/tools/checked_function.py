"""A function to check at given arguments, and its derivatives, as programs."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr, tree_unflatten

from minixla import transforms
from minixla.core import Graph, Shape, shape_of
from minixla.core.annotations import Paths
from minixla.core.element_types import ElementType
from minixla.core.errors import DerivativeError, TransformError, explain, too_large
from minixla.core.linear import spread
from minixla.core.shapes import ADDRESS_SPACE
from minixla.core.state import held
from minixla.core.tracing import evaluate_graph
from minixla.engine.random_keys import flatten, leaf_paths
from minixla.tools.differences import random_direction
from minixla.tools.graph_parts import all_values, inexact_part, inlined, is_inexact
from minixla.tools.inner_rules import Recorder, Records
from minixla.tools.oracle_values import Opinion
from minixla.tools.reports import KINDS
from minixla.transforms import make_graph
from minixla.transforms.pytree_paths import check_leaves
from minixla_ops.programs.runs_programs import SpansDevices

_SUBJECT = "cross_check"

#: A program with its operands, or the reason why it is missing.
Program = tuple[Graph, list[np.ndarray]] | str


def check_repeatable(subject: str, graph: Graph) -> None:
    """Check that a program can run several times, in several evaluators.

    Raises:
        SizeError: one of its values does not fit into any memory.
        TransformError: it runs on several devices, or has side effects.
    """
    for step in inlined(graph).instructions:
        for shape in step.shapes:
            if isinstance(shape, Shape) and shape.nbytes > ADDRESS_SPACE:
                # Raise an error although no evaluator may need all of it.
                raise too_large(subject, f"{shape} is too large to allocate")
        if isinstance(step.op, SpansDevices):
            problem = f"{step.op.builder_name} runs on several devices"
            advice = "Check what each device computes; mx.simulate runs processes in NumPy."
            details = [f"called at {step.source}"]
            raise explain(TransformError, subject, problem, details, advice)
    effects = [step for step in graph.silent().instructions if step.has_side_effect]
    if effects:
        problem = "the function has side effects, so it cannot run several times"
        details = [f"{step.op.builder_name}, called at {step.source}" for step in effects[:4]]
        advice = "Check the parts without side effects."
        raise explain(TransformError, subject, problem, details, advice)


def _is_wide(kind: ElementType) -> bool:
    """Test whether JAX has an element type only with 64 bits enabled."""
    return kind.bits == (128 if kind.is_complex else 64)


class CheckedFunction:
    """A function at given arguments, and its derivatives along fixed random directions.

    Args:
        fun: the function.
        args: its arguments.
        is_wide: whether to trace the function with 64 bits enabled, regardless of JAX's setting.
        records: whether to record the rules that transformations inside it apply.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        args: Sequence[Any],
        is_wide: bool = False,
        records: bool = True,
    ) -> None:
        self._is_wide, self._records = is_wide, records
        leaves, tree = flatten(tuple(args))
        self._tree = tree
        #: The names of the leaves of arguments and results in reports.
        self.input_names = [f"args{keystr(path)}" for path in leaf_paths(tuple(args))]
        self.output_names = output_names = list[str]()

        def flat(*arguments: Any) -> list[Any]:
            results = fun(*tree_unflatten(tree, arguments))
            output_names[:] = [f"result{keystr(path)}" for path in leaf_paths(results)]
            return flatten(results)[0]

        flat.__name__ = getattr(fun, "__name__", "function")
        self._flat = flat
        self._programs: dict[str, Program] = {}
        #: The error of a derivative rule, by the kind of the program.
        self.raised: dict[str, Exception] = {}
        check_leaves(_SUBJECT, leaves, self.input_names)
        #: The rules that transformations inside the function apply.
        self.records = Records()
        with self._recording():
            graph = make_graph(flat)(*leaves)
        self.graph = graph.with_paths(Paths(self.input_names, output_names))
        self._refuse()
        #: The leaves of the arguments, with the types that the graph takes, and which are inexact.
        inputs: list[Any] = list(self.graph.input_shapes)
        outputs: list[Any] = list(self.graph.output_shapes)
        pairs = zip(leaves, inputs, strict=True)
        self.operands = [np.asarray(leaf).astype(shape.dtype) for leaf, shape in pairs]
        self.moving = list(map(is_inexact, inputs))
        generator = np.random.default_rng(0)
        #: One direction for each inexact array among the arguments, or the results.
        self.directions = {
            kind: [random_direction(generator, s).astype(s.dtype) for s in filter(is_inexact, side)]
            for kind, side in (("jvp", inputs), ("vjp", outputs))
        }
        self.has_derivatives = all(self.directions.values())

    @contextlib.contextmanager
    def _recording(self, is_open: bool = True) -> Iterator[None]:
        """Record rules in a `with` block; if closed, share only the traced forms of functions."""
        self.records.is_open = is_open
        with contextlib.ExitStack() as stack:
            if self._records:
                stack.enter_context(held("watch", Recorder(token=self.records)))
            if self._is_wide:
                stack.enter_context(jax.enable_x64(True))
            yield

    @classmethod
    def of_graph(
        cls, graph: Graph, operands: Sequence[Any], moving: Sequence[bool] | None = None
    ) -> "CheckedFunction":
        """Return the function of a program of arrays, or of the arrays that `moving` marks."""
        flags = [True] * len(operands) if moving is None else moving
        shapes = [value.shape for value in all_values(graph)]
        is_wide = any(isinstance(s, Shape) and _is_wide(s.element_type) for s in shapes)

        def function(*values: Any) -> list[Any]:
            return evaluate_graph(graph, spread(flags, values, operands))

        return cls(function, list(compress(operands, flags)), is_wide, records=False)

    def _refuse(self) -> None:
        names = [*self.input_names, *self.output_names]
        shapes = [*self.graph.input_shapes, *self.graph.output_shapes]
        for name, shape in zip(names, shapes, strict=True):
            if not isinstance(shape, Shape) or shape.is_dynamic:
                problem = f"{name} is of shape {shape}, and only arrays can be compared"
                advice = "Unpack tuples, omit tokens, and set dynamic sizes to bounds."
                raise explain(TransformError, _SUBJECT, problem, [], advice)
        check_repeatable(_SUBJECT, self.graph)

    def named_outputs(self, kind: str) -> list[tuple[str, Any]]:
        """Return the names of a program's outputs in reports, and their shapes."""
        pairs = zip(self.output_names, self.graph.output_shapes, strict=True)
        if kind == "result":
            return list(pairs)
        if kind == "vjp":
            pairs = zip(self.input_names, self.graph.input_shapes, strict=True)
        what = "tangent" if kind == "jvp" else "gradient"
        return [(f"{what} of {name}", shape) for name, shape in pairs if is_inexact(shape)]

    def program(self, kind: str) -> Program:
        """Return one of the programs, with calls inlined."""
        if kind not in self._programs:
            self._programs[kind] = self._made(kind)
        return self._programs[kind]

    def _made(self, kind: str) -> Program:
        graph, operands = self.graph, [*self.operands, *self.directions.get(kind, ())]

        def derivative(*arguments: Any) -> list[Any]:
            count = len(self.operands)
            return self._given(kind, transforms, self._flat, arguments[:count], arguments[count:])

        try:
            if kind != "result":
                with self._recording(is_open=False):
                    graph = make_graph(derivative)(*operands)
        except DerivativeError as error:
            return str(error).splitlines()[0]
        except Exception as error:  # a user's rule may raise any error
            if kind == "result":
                raise
            self.raised[kind] = error
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        return inlined(graph.silent()).pruned(), operands

    def _given(self, kind: str, module: Any, flat: Any, given: Any, directions: Any) -> list[Any]:
        """Return the results of a program of a kind, by our module or JAX's, for flat arguments."""
        if kind == "result":
            return flat(*given)
        part = inexact_part(flat, self.moving, given)
        point = tuple(compress(given, self.moving))
        if kind == "jvp":
            return list(module.jvp(part, point, tuple(directions))[1])
        return list(module.vjp(part, *point)[1](list(directions)))

    def run_jax(
        self, against: Callable[..., Any], gradients: bool, is_own: bool = False
    ) -> dict[str, Opinion]:
        """Run a JAX function for the same arguments and directions; results by kind of program.

        If `is_own`, it is the checked function itself, and JAX's errors become notes: for example,
        JAX has no reverse derivative of `while_loop`.
        """

        def flat(*arguments: Any) -> list[Any]:
            results = flatten(against(*tree_unflatten(self._tree, arguments)))[0]
            sides = {"ours": list(self.graph.output_shapes)}
            sides["JAX's"] = [shape_of(result, _SUBJECT) for result in results]
            if sides["ours"] != sides["JAX's"]:
                problem = "the results of the JAX function differ in number, type or shape"
                details = [f"{name}: {', '.join(map(str, side))}" for name, side in sides.items()]
                advice = "Both must return equally many arrays, of the same types and shapes."
                raise explain(TransformError, _SUBJECT, problem, details, advice)
            return results

        run = jax.jit(
            lambda kind, *arguments: self._given(kind, jax, flat, *arguments), static_argnums=0
        )
        answers: dict[str, Opinion] = {}
        shapes = [*self.graph.input_shapes, *self.graph.output_shapes]
        # The function runs with the user's dtypes, in which a constant may be f32 or f64.
        is_wide = any(isinstance(s, Shape) and _is_wide(s.element_type) for s in shapes)
        with jax.enable_x64(True) if is_wide else contextlib.nullcontext():
            for kind in KINDS if gradients and self.has_derivatives else ["result"]:
                try:
                    results = run(kind, self.operands, self.directions.get(kind))
                    answers[kind] = list(map(np.asarray, results))
                except Exception as error:
                    is_rule = isinstance(error, TypeError) and "custom_vjp" in str(error)
                    if not is_own and not (kind == "jvp" and is_rule):
                        raise
                    answers[kind] = str(error).splitlines()[0]
        return answers
