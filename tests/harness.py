"""What the tests of operations share: each function runs one operation past the oracles."""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import Any

import jax
import numpy as np

import minixla as mx
from minixla.core import Tracer
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla.engine.platform_text import PlatformEmitter
from minixla.legalize import Target
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.compilation import QUICKLY
from tests.oracles.compare import assert_same
from tests.oracles.interpreter import run_stablehlo
from tests.oracles.xla import run_xla, run_xla_optimized

__all__ = [
    "QUICKLY",
    "DerivativesTogether",
    "Together",
    "by_jax",
    "check_batching",
    "check_derivatives",
    "check_operation",
    "check_rejected",
    "compiled_rows",
    "compiled_together",
    "graph_of",
    "results_together",
    "text_for",
    "through_stablehlo",
    "together",
    "unwrapped",
]

Function = Callable[..., Any]
Oracle = Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]
Outcome = list[np.ndarray] | Exception
#: For each function that is derived, itself or a derivative: the derivatives, and results' shapes.
Derivatives = list[dict[str, Any]]


def calls_of(function: Callable[[], Any]) -> int:
    """How many functions, Python's and compiled ones, a call calls: its work without a clock."""
    count = 0

    def counted(_frame: Any, event: str, _of: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # libraries have functions called whenever it runs
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def by_jax(function: Function, *arguments: Any) -> Any:
    """What JAX gives, in one program: outside of `jax.jit` it would compile each operation."""
    return jax.jit(function, compiler_options=QUICKLY)(*arguments)


def together(
    jit: Callable[..., Any],
    functions: Mapping[Any, Callable[..., Any]],
    arguments: Mapping[Any, Sequence[Any]],
    *,
    known: bool = False,
) -> dict[Any, Any]:
    """What each function gives of its own arrays, in one program made by `jit`.

    Those that cannot be traced are left out; all are where the program cannot be compiled. With
    `known` they get their arrays' values instead, on which shapes may depend.
    """
    found: dict[Any, tuple[Any, list[Any]]] = {}
    # What several functions are given is one operand.
    operands = {id(each): each for each in arguments.values()}

    def everything(given: Mapping[int, Sequence[Any]]) -> dict[Any, Any]:
        traced = {}
        for key, function in functions.items():
            for arrays in (given[id(arguments[key])], arguments[key])[: 1 + known]:
                try:
                    result = function(*arrays)
                    break
                except Exception:
                    continue
            else:
                continue
            leaves, tree = jax.tree.flatten(result)
            places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, Tracer))]
            traced[key] = {at: leaves[at] for at in places}
            # What is no array, such as a shape, stays as it is.
            found[key] = tree, [None if at in places else x for at, x in enumerate(leaves)]
        return traced

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of narrowed dtypes
        try:
            computed = jit(everything)(operands)
        except Exception:
            return {}
    return {
        key: jax.tree.unflatten(
            tree, [computed[key].get(at, leaf) for at, leaf in enumerate(leaves)]
        )
        for key, (tree, leaves) in found.items()
    }


def compiled_together(
    functions: Mapping[Any, Function], *arguments: Any, jit: Function = mx.jit
) -> Function:
    """From the name of a function to its result, all of them in one program, compiled quickly.

    A function that fails, or with which the others fail, runs when its result is asked for, and
    raises the error.
    """
    return compiled_rows({name: (each, arguments) for name, each in functions.items()}, jit)


def compiled_rows(
    rows: Mapping[Any, tuple[Function, Sequence[Any]]],
    jit: Function = mx.jit,
    *,
    known: bool = False,
) -> Function:
    """As `compiled_together`, for functions that each have their own arguments.

    With `known` functions may ask for their arguments' values.
    """
    quick = functools.partial(jit, compiler_options=QUICKLY)
    functions = {name: function for name, (function, _) in rows.items()}
    arguments = {name: given for name, (_, given) in rows.items()}
    found = together(quick, functions, arguments, known=known)

    def result(name: Any) -> Any:
        if name in found:
            return found[name]
        alone = functions[name] if known else quick(functions[name])
        return alone(*arguments[name])

    return result


def through_stablehlo(function: Function) -> Function:
    """Import a JAX function of arrays as a program, which our rules differentiate."""

    @functools.cache
    def program(*shapes: Any) -> Any:
        structs = [jax.ShapeDtypeStruct(*each) for each in shapes]
        return mx.import_stablehlo(jax.jit(function).lower(*structs).as_text())

    def imported(*args: Any) -> Any:
        return program(*[(x.shape, x.dtype) for x in map(mx.numpy.asarray, args)])(*args)

    return imported


def graph_of(function: Function, operands: Sequence[np.ndarray]) -> Graph:
    """The graph of `function` for operands of exactly these types, whatever JAX's 64-bit mode."""
    shapes = [Shape(np.asarray(x).dtype, np.shape(x)) for x in operands]
    return trace_to_graph(lambda *xs: jax.tree.leaves(function(*xs)), shapes)[0]


def check_operation(
    function: Function,
    operands: Sequence[np.ndarray],
    *,
    ulp: float = 0,
    xla_ulp: float | None = None,
    interpreter_ulp: float | None = None,
    xla: bool = True,
    interpreter: bool = True,
    signed_zeros: bool = True,
    normwise: bool = False,
    optimized: bool = False,
    given: Mapping[Oracle, Outcome] | None = None,
) -> list[np.ndarray]:
    """Asserts that NumPy's reference, XLA and StableHLO's interpreter agree on `function`.

    Args:
        function: calls builders; returns a pytree of values.
        operands: NumPy arrays; 64-bit types stay as they are.
        ulp: how far results may be apart, in steps; `xla_ulp`, `interpreter_ulp` override it.
        xla, interpreter: whether to ask that oracle; leave one out only with a reason.
        signed_zeros: whether -0 and +0 differ.
        normwise: whether complex numbers are compared in the plane.
        optimized: whether XLA compiles as for users, where bounds need it; not with `given`.
        given: what oracles have been asked already, by `results_together`.

    Returns:
        The reference results.
    """
    graph = graph_of(function, operands)
    expected = [np.asarray(each) for each in reference_graph(graph, operands)]
    for shape, result in zip(graph.output_shapes, expected, strict=True):
        assert result.dtype == shape.dtype, f"reference gives {result.dtype}, declared {shape}"  # type: ignore[union-attr]  # an array
        assert result.shape == shape.dimensions, f"reference gives {result.shape}, declared {shape}"  # type: ignore[union-attr]  # an array
    oracles = [
        (
            "XLA",
            run_xla_optimized if optimized else run_xla,
            xla,
            ulp if xla_ulp is None else xla_ulp,
        ),
        (
            "interpreter",
            run_stablehlo,
            interpreter,
            ulp if interpreter_ulp is None else interpreter_ulp,
        ),
    ]
    for name, run, wanted, bound in oracles:
        if wanted:
            actual = unwrapped(given[run]) if given else run(text_for(run, graph), operands)
            for one, other in zip(expected, actual, strict=True):
                assert_same(
                    one,
                    other,
                    ulp=bound,
                    signed_zeros=signed_zeros,
                    normwise=normwise,
                    inputs=operands,
                    name=f"reference against {name}",
                )
    return expected


def text_for(run: Oracle, graph: Graph) -> str:
    """The text that an oracle gets: for XLA what it receives on a CPU, without calls of kernels."""
    if run in (run_xla, run_xla_optimized):
        return PlatformEmitter(Target("cpu")).module(graph)
    return graph.stablehlo()


def results_together(
    run: Oracle,
    rows: Mapping[Hashable, tuple[Function, Sequence[np.ndarray]]],
) -> dict[Any, Outcome]:
    """What an oracle gives for each row, a function and its operands, all in one module.

    A module costs XLA more than a row. Where the rows fail together, halves of them are asked: a
    row that fails alone has its error for an outcome.
    """
    counts: list[int] = []

    def together(*xs: Any) -> list[Any]:
        remaining = iter(xs)
        results = [
            jax.tree.leaves(function(*islice(remaining, len(operands))))
            for function, operands in rows.values()
        ]
        counts[:] = map(len, results)
        return results

    operands = [x for _, each in rows.values() for x in each]
    try:
        text = text_for(run, graph_of(together, operands))
        results = iter(run(text, operands))
    except Exception as error:
        if len(rows) == 1:
            return dict.fromkeys(rows, error)
        half, items = len(rows) // 2, list(rows.items())
        parts = dict(items[:half]), dict(items[half:])
        return results_together(run, parts[0]) | results_together(run, parts[1])
    return {name: list(islice(results, n)) for name, n in zip(rows, counts, strict=True)}


def unwrapped(outcome: Outcome) -> list[np.ndarray]:
    """The results of an outcome; raises its error."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class Together:
    """Rows of `check_operation` whose programs are one module to each oracle.

    Args:
        rows: for each name the function, the operands and the options.
    """

    def __init__(
        self, rows: Mapping[Any, tuple[Function, Sequence[np.ndarray], Mapping[str, Any]]]
    ) -> None:
        self.rows = rows
        self._results: dict[Oracle, dict[Any, Outcome]] = {}

    def check(self, name: Hashable) -> list[np.ndarray]:
        """Asserts that the row is right; the first call asks the oracles about all rows."""
        function, operands, options = self.rows[name]
        given: dict[Oracle, Outcome] = {}
        for run, flag in ((run_xla, "xla"), (run_stablehlo, "interpreter")):
            if options.get(flag, True):
                if run not in self._results:
                    wanted = {
                        each: row[:2] for each, row in self.rows.items() if row[2].get(flag, True)
                    }
                    self._results[run] = results_together(run, wanted)
                given[run] = self._results[run][name]
        return check_operation(function, operands, **options, given=given)


def _directions(arrays: Sequence[Any], seed: int) -> list[Any]:
    """A random tangent for each array; float0 zeros for integers."""
    generator = np.random.default_rng(seed)
    found: list[Any] = []
    for array in arrays:
        if array.dtype.kind == "c":
            parts = generator.standard_normal((2, *array.shape))
            found.append((parts[0] + 1j * parts[1]).astype(array.dtype))
        elif array.dtype.kind == "f":
            found.append(generator.standard_normal(array.shape).astype(array.dtype))
        else:
            found.append(np.zeros(array.shape, jax.dtypes.float0))
    return found


def _inner(first: Sequence[Any], second: Sequence[Any]) -> float:
    """The real inner product in which JAX's pullbacks are adjoint: Re sum(x * y)."""
    pairs = zip(first, second, strict=True)
    return float(sum(np.sum(np.real(x * y)) for x, y in pairs if x.dtype != jax.dtypes.float0))


def check_derivatives(
    function: Function,
    operands: Sequence[np.ndarray],
    jax_function: Function | None = None,
    *,
    order: int = 2,
    step: float = 1e-5,
    rtol: float = 1e-6,
    atol: float = 1e-6,
    modes: Sequence[str] = ("fwd", "rev"),
    differences: bool = True,
    given: Derivatives | None = None,
) -> None:
    """Asserts that derivatives of `function` at f64 operands are right.

    Forward mode against central finite differences (whose error, about step**2 plus 1e-16 / step,
    is why the default tolerance is 1e-6), reverse mode as the adjoint of forward mode, both against
    `jax_function`, and the same for the derivative itself up to `order`.

    Args:
        function: of arrays; returns a pytree.
        operands: f64, c128 or integer NumPy arrays.
        jax_function: the same in JAX.
        order: 1 or 2.
        step: of the finite differences.
        rtol, atol: the tolerance against finite differences; against JAX it is 1e-12.
        modes: of "fwd" and "rev".
        differences: False where finite differences mean nothing (a kink); leave a reason.
        given: what JAX has been asked already, by `DerivativesTogether`.
    """
    operands = [np.asarray(x) for x in operands]
    ours: Derivatives = []
    with jax.enable_x64(True):
        _check_order(function, operands, order, step, rtol, atol, modes, differences, ours)
        if jax_function is not None:
            derived = _derived_by_jax(jax_function, operands, order, modes)
            _compare_with_jax(ours, by_jax(derived, *operands) if given is None else given)


class DerivativesTogether:
    """Rows of `check_derivatives` for which JAX's derivatives are one program.

    Args:
        rows: for each name the function, the operands, the same in JAX or None, and the options.
    """

    def __init__(
        self,
        rows: Mapping[
            Any, tuple[Function, Sequence[np.ndarray], Function | None, Mapping[str, Any]]
        ],
    ) -> None:
        self.rows = rows

    def check(self, name: Hashable) -> None:
        """Asserts that the row is right; the first call asks JAX about all rows."""
        function, operands, jax_function, options = self.rows[name]
        given = self._by_jax.get(name)
        check_derivatives(function, operands, jax_function, **options, given=given)

    @functools.cached_property
    def _by_jax(self) -> dict[Any, Derivatives]:
        """JAX's derivatives of the rows, but of those that it fails to trace."""
        functions, arguments = {}, {}
        for name, (_, operands, jax_function, options) in self.rows.items():
            if jax_function is not None:
                arguments[name] = [np.asarray(x) for x in operands]
                wanted = options.get("order", 2), options.get("modes", ("fwd", "rev"))
                functions[name] = _derived_by_jax(jax_function, arguments[name], *wanted)
        with jax.enable_x64(True):
            jit = functools.partial(jax.jit, compiler_options=QUICKLY)
            return together(jit, functions, arguments)


def _check_order(
    function: Function,
    operands: Sequence[np.ndarray],
    order: int,
    step: float,
    rtol: float,
    atol: float,
    modes: Sequence[str],
    differences: bool,
    found: Derivatives,
) -> None:
    """Compares the derivatives with each other; adds them to `found`."""
    tangents = _directions(operands, order)

    def flat(*xs: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(function(*xs)))

    def forward(*xs: Any) -> Any:
        return mx.jvp(flat, xs, tangents)

    outputs = mx.reference(flat)(*operands)
    cotangents = _directions(outputs, order + 10)
    inexact = [o.dtype.kind in "fc" for o in outputs]
    slopes = None
    if "fwd" in modes:
        slopes = mx.reference(lambda *xs: forward(*xs)[1])(*operands)
        if differences:
            _compare_with_differences(flat, operands, tangents, slopes, inexact, step, rtol, atol)
    pulled = None
    if "rev" in modes:

        def reverse(*xs: Any) -> Any:
            return mx.vjp(flat, *xs)[1](tuple(cotangents))

        pulled = mx.reference(reverse)(*operands)
        if slopes is not None:
            left, right = _inner(cotangents, slopes), _inner(pulled, tangents)
            np.testing.assert_allclose(right, left, rtol=1e-9, atol=1e-9, err_msg="vjp against jvp")
    shapes = [np.array(each.shape) for each in outputs]
    found.append({"fwd": slopes, "rev": pulled, "shapes": shapes})
    if order > 1:
        floats = [i for i, x in enumerate(operands) if x.dtype.kind in "fc"]
        for mode in modes:
            _check_order(
                _derivative(flat, mode, tangents, cotangents, floats),
                operands,
                order - 1,
                step,
                max(rtol, 1e-5),
                max(atol, 1e-5),
                modes,
                differences,
                found,
            )


def _derivative(
    flat: Function, mode: str, tangents: Sequence[Any], cotangents: Sequence[Any], floats: list[int]
) -> Function:
    if mode == "fwd":
        return lambda *xs: [t for t in mx.jvp(flat, xs, tangents)[1] if _has_value(t)]
    return lambda *xs: [mx.vjp(flat, *xs)[1](tuple(cotangents))[i] for i in floats]


def _jax_derivative(
    fun: Function, mode: str, tangents: Sequence[Any], cotangents: Sequence[Any], floats: list[int]
) -> Function:
    def flat(*xs: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(fun(*xs)))

    if mode == "fwd":
        return lambda *xs: [t for t in jax.jvp(flat, xs, tuple(tangents))[1] if _has_value(t)]
    return lambda *xs: [jax.vjp(flat, *xs)[1](tuple(cotangents))[i] for i in floats]


def _has_value(tangent: Any) -> bool:
    return getattr(tangent, "dtype", None) != jax.dtypes.float0


def _compare_with_differences(
    flat: Function,
    operands: Sequence[np.ndarray],
    tangents: Sequence[Any],
    slopes: Sequence[Any],
    inexact: Sequence[bool],
    step: float,
    rtol: float,
    atol: float,
) -> None:
    def moved(sign: int) -> list[np.ndarray]:
        pairs = zip(operands, tangents, strict=True)
        return [x + sign * step * t if _has_value(t) else x for x, t in pairs]

    above, below = (mx.reference(flat)(*moved(sign)) for sign in (1, -1))
    for high, low, slope, wanted in zip(above, below, slopes, inexact, strict=True):
        if wanted:
            np.testing.assert_allclose(
                slope,
                (high - low) / (2 * step),
                rtol=rtol,
                atol=atol,
                err_msg="jvp against finite differences",
            )


def _derived_by_jax(
    fun: Function, operands: Sequence[np.ndarray], order: int, modes: Sequence[str]
) -> Function:
    """From the operands to JAX's derivatives, those that `_check_order` finds of ours."""
    tangents = _directions(operands, order)
    floats = [i for i, x in enumerate(operands) if x.dtype.kind in "fc"]

    def flat(*xs: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(fun(*xs)))

    def derived(*xs: Any) -> Derivatives:
        found, outputs, cotangents = {}, [], []
        if "fwd" in modes:
            outputs, found["fwd"] = jax.jvp(flat, xs, tuple(tangents))
        if "rev" in modes:
            outputs, pull = jax.vjp(flat, *xs)
            # Python's numbers may be among them.
            cotangents = _directions(list(map(jax.numpy.asarray, outputs)), order + 10)
            found["rev"] = pull(tuple(cotangents))
        found["shapes"] = [np.array(np.shape(each)) for each in outputs]
        every = [{name: list(filter(_has_value, values)) for name, values in found.items()}]
        for mode in modes if order > 1 else ():
            derivative = _jax_derivative(fun, mode, tangents, cotangents, floats)
            every += _derived_by_jax(derivative, operands, order - 1, modes)(*xs)
        return every

    return derived


def _compare_with_jax(ours: Derivatives, expected: Derivatives) -> None:
    for actual, found in zip(ours, expected, strict=True):
        for name, values in found.items():
            for one, other in zip(filter(_has_value, actual[name]), values, strict=True):
                # Both in f64, of the same derivative: some thousands of roundings apart at most.
                np.testing.assert_allclose(
                    one, other, rtol=1e-12, atol=1e-12, err_msg=f"{name} against JAX"
                )


def check_batching(
    function: Function,
    operands: Sequence[np.ndarray],
    *,
    size: int = 3,
    batched: Sequence[int] | None = None,
    rtol: float = 1e-6,
) -> None:
    """Asserts that vmap over every non-empty subset of the operands equals a loop.

    The batch stands first, and last, in each operand. Values come from the reference.

    Args:
        function: of arrays; returns a pytree.
        operands: one member of the batch; the others are its elements in another order.
        size: of the batch.
        batched: which operands may be batched; default: all.
        rtol: how far floats may be apart (sums may be ordered differently); others are equal.
    """
    choices = range(len(operands)) if batched is None else batched
    generator = np.random.default_rng(0)
    members = [
        [
            np.asarray(x),
            *(
                generator.permuted(np.asarray(x).ravel()).reshape(np.shape(x))
                for _ in range(size - 1)
            ),
        ]
        for x in operands
    ]
    with jax.enable_x64(True):
        for count in range(1, len(choices) + 1):
            for chosen in itertools.combinations(choices, count):
                for position in (0, -1):
                    _check_batch(function, operands, members, chosen, position, size, rtol)


def _check_batch(
    function: Function,
    operands: Sequence[np.ndarray],
    members: Sequence[Sequence[np.ndarray]],
    chosen: Sequence[int],
    position: int,
    size: int,
    rtol: float,
) -> None:
    axes = tuple(position if i in chosen else None for i in range(len(operands)))
    stacked = [
        np.stack(m, a) if a is not None else m[0] for m, a in zip(members, axes, strict=True)
    ]

    def flat(*xs: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(function(*xs)))

    actual = mx.reference(mx.vmap(flat, in_axes=axes))(*stacked)
    rows = [
        mx.reference(flat)(
            *[m[k] if a is not None else m[0] for m, a in zip(members, axes, strict=True)]
        )
        for k in range(size)
    ]
    for one, column in zip(actual, zip(*rows, strict=True), strict=True):
        expected = np.stack(column)
        assert one.dtype == expected.dtype
        if one.dtype.kind in "fcV":
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                one.astype(wide),
                expected.astype(wide),
                rtol=rtol,
                atol=rtol,
                err_msg=f"in_axes={axes}",
            )
        else:
            np.testing.assert_array_equal(one, expected, err_msg=f"in_axes={axes}")


def check_rejected(
    function: Function, operands: Sequence[Any], error: type[Exception], *phrases: str
) -> None:
    """Asserts that the call fails with `error`; its message has the phrases and the test's file."""
    try:
        graph_of(function, operands)
    except error as caught:
        message = str(caught)
    else:
        raise AssertionError(f"no {error.__name__} was raised")
    for phrase in (*phrases, "called at", function.__code__.co_filename.rsplit("/", 1)[-1]):
        assert phrase in message, f"{phrase!r} is not in the message:\n{message}"
