"""Calls in StableHLO: of functions of the module, of composites, of code from outside.

What custom calls mean is one table for StableHLO and HLO. A meaning is given the call and its
operands, all arrays, and adds to the graph under construction. It gives the results, or None for a
call that is not as the target wants it; such a call is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph
from minixla.interop.operations import Translation
from minixla.interop.shardings import PLACEMENTS
from minixla.interop.step import Step
from minixla.interop.values import ELEMENTS, plain
from minixla_ops.host.lapack import PORTABLE, LapackCall, column_major, lapack_routine, letters
from minixla_ops.vocabulary.tuple_operations import leaf_shapes

#: Custom calls with an operation of ours, by the name under which portable artifacts keep them.
_OPERATIONS = {"mhlo.topk": "TopK", "mhlo.erf": "Erf", "mhlo.cosh": "Cosh"}
_CALLBACK = "callback"


class ForeignCall:
    """A custom call.

    Attributes:
        target: its name.
        builder: makes the graph.
        operands: arrays and tokens; as in HLO, the members of a tuple are values of their own.
        results: the shapes that the program declares, of arrays and tokens.
        options: what the code is given.
        computations: the programs that it is given.
        attributes: those of CustomCall but for the target and the shapes.
    """

    def __init__(self, step: Step) -> None:
        version, self.options = _config(step)
        self.target, self.builder = step.get("call_target_name"), step.builder
        self.operands = step.builder.leaves(*step.operands)
        self.results = [leaf for shape in step.results for leaf in leaf_shapes(shape)]
        self.computations = step.module.called(step)
        self.attributes: dict[str, Any] = {
            "options": self.options,
            "has_side_effect": bool(step.get("has_side_effect", False)),
            "api_version": version,
            "operand_layouts": _layouts(step, "operand_layouts", step.shapes),
            "result_layouts": _layouts(step, "result_layouts", self.results),
        }

    def inlined(self, function: Callable[..., Any]) -> list[Value]:
        """The results of a function of the operands, instruction by instruction."""
        shapes = [value.shape for value in self.operands]
        return self.builder.inline(closed_graph(function, shapes, self.target), self.operands)

    def known(self) -> Sequence[Value] | None:
        """The results of what the target means; None where that is not known."""
        routine = lapack_routine(self.target)
        found = _LAPACK.get(routine[1]) if routine is not None else _MEANINGS.get(self.target)
        arrays = [value.shape for value in self.operands] + self.results
        if found is None or not all(isinstance(shape, Shape) for shape in arrays):
            return None
        meaning, *counts = found
        own = len(self.operands), len(self.results)
        fits = all(wanted in (count, None) for wanted, count in zip(counts, own, strict=True))
        return meaning(self, *self.operands) if fits else None

    def kept(self) -> Sequence[Value]:
        """The results of the call itself, which evaluates where somebody registers its meaning.

        Where it has no layouts, a routine of LAPACK gets its own.
        """
        given = {"target_name": self.target, "shapes": tuple(self.results), **self.attributes}
        operation: type[Operation] = REGISTRY["CustomCall"]
        if self.target in PORTABLE and not any(map(given.get, _LAYOUTS)):
            operation = LapackCall
        elif (layouts := _lapack_layouts(self)) is not None:
            operation = LapackCall
            given.update(zip(_LAYOUTS, layouts, strict=True))
        return self.builder.apply(operation, self.operands, given)


_LAYOUTS = "operand_layouts", "result_layouts"


def _lapack_layouts(call: ForeignCall) -> Any:
    """The layouts of a call of LAPACK; None for other calls, and for arrays in other layouts."""
    shapes = [value.shape for value in call.operands], call.results
    layouts = column_major(call.target, shapes[0])
    if layouts is None or call.attributes["api_version"] != 4:
        return None
    for name, wanted, own in zip(_LAYOUTS, layouts, shapes, strict=True):
        found = call.attributes.get(name, wanted)
        if found is None:
            found = [range(shape.rank)[::-1] for shape in own if isinstance(shape, Shape)]
        if tuple(map(tuple, found)) != wanted:
            return None
    return layouts


def _top_k(call: ForeignCall, operand: Value) -> Sequence[Value] | None:
    """XLA:CPU's TopK: the greatest elements, and where they are."""
    values = call.results[0]
    assert isinstance(values, Shape)
    return call.inlined(lambda x: ops.top_k(x, values.dimensions[-1])) if values.rank else None


def _approximate_top_k(call: ForeignCall, *operands: Value) -> Sequence[Value] | None:
    """XLA's ApproxTopK, exactly: the first elements in the order of the program that it is given.

    Which ones an approximation misses is up to the backend, and XLA misses none but on TPUs.
    """
    count = len(call.results)
    dimension = call.options.get("reduction_dim")
    if len(operands) != 2 * count or len(call.computations) != 1 or not count:
        return None
    if type(dimension) is not int:
        return None
    attributes = {"comparator": call.computations[0], "dimension": dimension, "is_stable": True}
    ordered = call.builder.apply(REGISTRY["Sort"], operands[:count], attributes)
    return [_first(call, *each) for each in zip(ordered, call.results, strict=True)]


def _first(call: ForeignCall, value: Value, shape: AnyShape) -> Value:
    assert isinstance(shape, Shape)
    zeros, ones = (0,) * shape.rank, (1,) * shape.rank
    limits = {"start_indices": zeros, "limit_indices": shape.dimensions, "strides": ones}
    return call.builder.bind("Slice", value, **limits)


def _cholesky(call: ForeignCall, operand: Value) -> Sequence[Value] | None:
    """LAPACK's potrf: the factor in a triangle of the operand's, and whether there is none.

    The other triangle keeps the operand's elements. Without a factor, which is NaN everywhere then,
    there is 1 for a matrix, else 0; empty ones have one.
    """
    uplo, info = letters(call.options, "uplo"), call.results[1]
    if uplo not in ("L", "U"):
        return None
    assert isinstance(info, Shape)

    def factor(a: Any) -> tuple[Any, Any]:
        found = ops.cholesky(a, lower=uplo == "L")
        rows, columns = (ops.iota(Shape("s32", a.shape), a.ndim - each) for each in (2, 1))
        inside = ops.ge(rows, columns) if uplo == "L" else ops.le(rows, columns)
        failed = mnp.any(mnp.isnan(found[..., :1, :1]), (-2, -1))
        return ops.select(inside, found, a), failed.astype(info.dtype)

    return call.inlined(factor)


def _triangular_solve(call: ForeignCall, *operands: Value) -> Sequence[Value] | None:
    """BLAS's trsm: x of a x = b, or x a = b."""
    found = letters(call.options, "side", "uplo", "diag", "trans_x")
    if not found:
        return None
    side, uplo, diagonal, transposed = found
    transposes = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    if side not in "LR" or uplo not in "LU" or diagonal not in "UN" or transposed not in transposes:
        return None
    attributes = {
        "left_side": side == "L",
        "lower": uplo == "L",
        "unit_diagonal": diagonal == "U",
        "transpose_a": transposes[transposed],
    }
    return call.builder.apply(REGISTRY["TriangularSolve"], operands, attributes)


def _slice_to_dynamic(call: ForeignCall, value: Value, *sizes: Value) -> Sequence[Value] | None:
    """The operand with the sizes that the other operands say."""
    (declared,) = call.results
    assert isinstance(declared, Shape)
    if len(sizes) != declared.rank:
        return None
    for dimension, (size, flag) in enumerate(zip(sizes, declared.dynamic, strict=True)):
        if flag:
            value = call.builder.bind("SetDimensionSize", value, size, dimension=dimension)
    return [value]


def _pad_to_static(call: ForeignCall, value: Value) -> Sequence[Value]:
    """The operand at its bounds, and its sizes."""
    shape, bind = value.shape, call.builder.bind
    assert isinstance(shape, Shape)
    sizes = [bind("GetDimensionSize", value, dimension=at) for at in range(shape.rank)]
    for dimension, flag in enumerate(shape.dynamic):
        if flag:
            bound = call.builder.constant(shape.dimensions[dimension], Shape("s32"))
            value = bind("SetDimensionSize", value, bound, dimension=dimension, to_bound=True)
    return (value, *sizes)


#: A meaning, and how many operands and results there must be; None for any number.
_Meaning = tuple[Callable[..., "Sequence[Value] | None"], int | None, int | None]
_MEANINGS: dict[str, _Meaning] = {
    "ApproxTopK": (_approximate_top_k, None, None),
    "PadToStatic": (_pad_to_static, 1, None),
    "SliceToDynamic": (_slice_to_dynamic, None, 1),
    "TopK": (_top_k, 1, 2),
}
#: By LAPACK's and BLAS's names, without the letter of the element type.
_LAPACK: dict[str, _Meaning] = {"potrf": (_cholesky, 1, 2), "trsm": (_triangular_solve, 2, 1)}


def _call(step: Step) -> Sequence[Value]:
    graph = step.module.function(step.get("callee"), step)
    return step.builder.call(graph, step.operands)


def _composite(step: Step) -> Sequence[Value]:
    graph = step.module.function(step.get("decomposition"), step)
    attributes = step.raw("composite_attributes")
    given = {
        "composite_name": step.get("name"),
        "composite_attributes": str(attributes) if attributes is not None else "{}",
        "version": step.get("version", 0),
    }
    return step.builder.call(graph, step.operands, "CompositeCall", **given)


def _custom_call(step: Step) -> Sequence[Value]:
    target = step.get("call_target_name")
    if target.startswith(PLACEMENTS) and step.results == step.shapes:
        return step.operands
    if target in _OPERATIONS:
        given = _options(step, step.raw("mhlo.attributes"))
        return step.builder.apply(REGISTRY[_OPERATIONS[target]], step.operands, given)
    if _CALLBACK in target and "python" in target:
        step.reject(
            f"the target {target!r} calls a Python function of the program's maker",
            "It means nothing in another program: leave pure_callback, io_callback and debug "
            "prints out, or register a function with minixla_ops.register_custom_call and use "
            "minixla_ops.custom_call.",
        )
    call = ForeignCall(step)
    results = call.known()
    if results is None and call.computations:
        step.reject(
            f"the target {target!r} is given functions to call", "Such calls are not supported."
        )
    return step.builder.from_leaves(step.results, call.kept() if results is None else results)


def _config(step: Step) -> tuple[int, dict[str, Any]]:
    """The version of XLA's interface, and the attributes that the code is given."""
    typed = step.raw("mhlo.backend_config")
    config = step.raw("backend_config") if typed is None else typed
    if isinstance(config, ir.DictAttr):
        return 4, _options(step, config)
    text = plain(config) if config is not None else ""
    return step.get("api_version", 1), {"backend_config": text} if text else {}


def _layouts(step: Step, name: str, shapes: Sequence[Any]) -> Any:
    """The layouts that it declares; None where they are row-major."""
    if name not in step.attributes:
        return None
    listed = [tuple(each.tolist()) for each in step.get(name)]
    ranks = [shape.rank if isinstance(shape, Shape) else 0 for shape in shapes]
    return None if listed == [tuple(range(rank))[::-1] for rank in ranks] else tuple(listed)


# The element type in `5 : i32`, `dense<1> : tensor<3xf32>` and `array<i8: 1, 2>`.
_ELEMENT = re.compile(r"array<(\w+)|tensor<(?:\d+x)*(\w+)>$|: (\w+)$")


def _options(step: Step, dictionary: Any) -> dict[str, Any]:
    """A dictionary attribute as custom calls take it."""
    if dictionary is None:
        return {}
    return {each.name: _option(step, each.name, each.attr) for each in dictionary}


def _option(step: Step, name: str, attribute: Any) -> Any:
    value, text = plain(attribute), str(attribute)
    if isinstance(value, (bool, str)):
        return value
    value = tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim else value
    members = value if isinstance(value, tuple) else (value,)
    match, element = _ELEMENT.search(text), "f64" if float in map(type, members) else "i64"
    element = match[match.lastindex or 0] if match else element
    if element not in ELEMENTS or not all(isinstance(x, (bool, int, float)) for x in members):
        step.reject(
            f"attribute {name} = {text[:100]} is no number, string or vector",
            "Custom calls can be given numbers, strings and vectors of numbers.",
        )
    is_pythons = value is not members and element in ("i64", "f64")
    return value if is_pythons else (ELEMENTS[element].dtype.name, value)


#: By name.
CALLS: dict[str, Translation] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
}
