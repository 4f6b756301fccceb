"""Calls in StableHLO: of functions of the module, of composites, of code from outside.

What custom calls mean is one table for StableHLO and HLO. A meaning is given the call and what it
is as an operation of ours; it adds to the graph under construction. It gives the results, or None
for a call that is not as the target wants it; such a call is kept.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jax.extend.mlir import ir

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.errors import MinixlaError
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.extension import stored
from minixla.interop.operations import Translation
from minixla.interop.shardings import PLACEMENTS
from minixla.interop.step import Step
from minixla.interop.values import ELEMENTS, plain
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.host.lapack import PORTABLE, LapackCall, column_major, lapack_routine, letters
from minixla_ops.vocabulary.tuple_operations import leaf_shapes, without_tuples

#: Custom calls with an operation of ours, by the name under which portable artifacts keep them.
_OPERATIONS = {"mhlo.topk": "TopK", "mhlo.erf": "Erf", "mhlo.cosh": "Cosh"}
_LAYOUTS = "operand_layouts", "result_layouts"


def foreign_call(step: Step) -> Sequence[Value]:
    """What a custom call's target means; the call itself where that is not known.

    As in HLO, the members of tuples among operands and results are values of their own.
    """
    version, options = _config(step)
    shapes = [leaf for shape in step.results for leaf in leaf_shapes(shape)]
    step.operands = step.builder.leaves(*step.operands)
    call: Any = step.record("CustomCall", shapes=shapes, options=options, api_version=version)
    routine = lapack_routine(call.target_name)
    found = _LAPACK.get(routine[1]) if routine is not None else _MEANINGS.get(call.target_name)
    if found is not None and all(isinstance(each, Shape) for each in (*step.shapes, *shapes)):
        meaning, *counts = found
        own = len(step.operands), len(shapes)
        if all(wanted in (count, None) for wanted, count in zip(counts, own, strict=True)):
            results = meaning(step, call)
            if results is not None:
                return results
    programs = step.module.called(step)
    if programs and not step.module.is_hlo:
        problem = f"the target {call.target_name!r} is given functions to call"
        step.reject(problem, "Such calls are not supported.")
    if programs:  # what it runs is lost: none may take the call for a plain one
        names = ", ".join([f"%{each.name}" for each in programs])
        call = call.replace(options={**options, "called_computations": f"{{{names}}}"})
    return step.builder.apply(_with_layouts(step, call), step.operands)


def _with_layouts(step: Step, call: Any) -> CustomCall:
    """The call with the layouts that it declares; LAPACK's own make it a LapackCall."""
    kind, given, shapes = CustomCall, [call.values[name] for name in _LAYOUTS], step.shapes
    rows = tuple([tuple(map(_row_major, side)) for side in (shapes, call.shapes)])
    columns = column_major(call.target_name, shapes) if call.api_version == 4 else None
    # Where HLO declares none, it is the target's.
    free = columns if step.module.is_hlo else rows
    layouts = [None if each == row else each for each, row in zip(given, rows, strict=True)]
    if call.target_name in PORTABLE and not any(layouts):
        kind = LapackCall
    elif columns and columns == tuple([a or b for a, b in zip(given, free or rows, strict=True)]):
        kind, layouts = LapackCall, [*columns]
    return kind(**{**call.values, **dict(zip(_LAYOUTS, layouts, strict=True))})


def _row_major(shape: Any) -> tuple[int, ...]:
    return tuple(range(shape.rank))[::-1] if isinstance(shape, Shape) else ()


def _top_k(step: Step, call: Any) -> Sequence[Value] | None:
    """XLA:CPU's TopK: the greatest elements, and where they are."""
    values = call.shapes[0]
    return step.inlined(lambda x: ops.top_k(x, values.dimensions[-1])) if values.rank else None


def _approximate_top_k(step: Step, call: Any) -> Sequence[Value] | None:
    """XLA's ApproxTopK, exactly: the first elements in the order of the program that it is given.

    Which ones an approximation misses is up to the backend, and XLA misses none but on TPUs.
    """
    count, programs = len(call.shapes), step.module.called(step)
    dimension = dict(call.options).get("reduction_dim")
    if len(step.operands) != 2 * count or len(programs) != 1 or type(dimension) is not int:
        return None
    given = {"comparator": programs[0], "dimension": dimension, "is_stable": True}
    ordered = step.apply("Sort", step.operands[:count], **given)
    limits = [{"start_indices": (0,) * x.rank, "limit_indices": x.dimensions} for x in call.shapes]
    return [step.bind("Slice", x, **each) for x, each in zip(ordered, limits, strict=True)]


def _cholesky(step: Step, call: Any) -> Sequence[Value] | None:
    """LAPACK's potrf: the factor in a triangle of the operand's, and whether there is none.

    The other triangle keeps the operand's elements. Without a factor, which is NaN everywhere then,
    there is 1 for a matrix, else 0; empty ones have one.
    """
    uplo, info = letters(dict(call.options), "uplo"), call.shapes[1]
    if uplo not in ("L", "U"):
        return None

    def factor(a: Any) -> tuple[Any, Any]:
        found = ops.cholesky(a, lower=uplo == "L")
        rows, columns = (ops.iota(Shape("s32", a.shape), a.ndim - each) for each in (2, 1))
        inside = ops.ge(rows, columns) if uplo == "L" else ops.le(rows, columns)
        failed = mnp.any(mnp.isnan(found[..., :1, :1]), (-2, -1))
        return ops.select(inside, found, a), failed.astype(info.dtype)

    return step.inlined(factor)


def _triangular_solve(step: Step, call: Any) -> Sequence[Value] | None:
    """BLAS's trsm: x of a x = b, or x a = b."""
    found = letters(dict(call.options), "side", "uplo", "diag", "trans_x")
    if not re.fullmatch("[LR][LU][UN][NTC]", found):
        return None
    side, uplo, diagonal, transposed = found
    transposes = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    given: dict[str, Any] = {
        "left_side": side == "L",
        "lower": uplo == "L",
        "unit_diagonal": diagonal == "U",
    }
    return step.apply("TriangularSolve", **given, transpose_a=transposes[transposed])


def _slice_to_dynamic(step: Step, call: Any) -> Sequence[Value] | None:
    """The operand with the sizes that the other operands say."""
    (value, *sizes), (declared,) = step.operands, call.shapes
    if len(sizes) != declared.rank:
        return None
    for dimension, (size, flag) in enumerate(zip(sizes, declared.dynamic, strict=True)):
        if flag:
            value = step.bind("SetDimensionSize", value, size, dimension=dimension)
    return [value]


def _pad_to_static(step: Step, call: Any) -> Sequence[Value]:
    """The operand at its bounds, and its sizes."""
    (value,), (shape,) = step.operands, step.shapes
    sizes = [step.bind("GetDimensionSize", value, dimension=at) for at in range(shape.rank)]
    for dimension, flag in enumerate(shape.dynamic):
        if flag:
            bound = step.builder.constant(shape.dimensions[dimension], Shape("s32"))
            value = step.bind("SetDimensionSize", value, bound, dimension=dimension, to_bound=True)
    return [value, *sizes]


#: A meaning, and how many operands and results there must be; None for any number.
_Meaning = tuple[Callable[[Step, Any], "Sequence[Value] | None"], int | None, int | None]
_MEANINGS: dict[str, _Meaning] = {
    "ApproxTopK": (_approximate_top_k, None, None),
    "PadToStatic": (_pad_to_static, 1, None),
    "SliceToDynamic": (_slice_to_dynamic, None, 1),
    "TopK": (_top_k, 1, 2),
}
#: By LAPACK's and BLAS's names, without the letter of the element type.
_LAPACK: dict[str, _Meaning] = {"potrf": (_cholesky, 1, 2), "trsm": (_triangular_solve, 2, 1)}


def _call(name: str, label: str, step: Step) -> Sequence[Value]:
    """A call of the function that an attribute names; tuples cross it as their members."""
    graph = step.module.function(step.get(label), step)
    leaves = step.builder.leaves(*step.operands)
    results = step.apply(name, leaves, computation=without_tuples(graph))
    return step.builder.from_leaves(graph.output_shapes, results)


def _custom_call(step: Step) -> Sequence[Value]:
    target = step.get("call_target_name")
    if target.startswith(PLACEMENTS) and step.results == step.shapes:
        return step.operands
    if target in _OPERATIONS:
        operation = REGISTRY[_OPERATIONS[target]]
        given = _options(step, step.raw("mhlo.attributes") or ())
        return step.builder.apply(operation(**given), step.operands)
    if "callback" in target and "python" in target:
        step.reject(
            f"the target {target!r} calls a Python function of the program's maker",
            "It means nothing in another program: leave pure_callback, io_callback and debug "
            "prints out, or register a function with minixla_ops.register_custom_call and use "
            "minixla_ops.custom_call.",
        )
    config = step.raw("backend_config")
    found = _registered(step, target, _tree(config) if isinstance(config, ir.DictAttr) else {})
    return step.builder.from_leaves(step.results, foreign_call(step)) if found is None else found


def _registered(
    step: Step, target: str, values: dict[str, Any], version: int = 0
) -> Sequence[Value] | None:
    """The results of an operation that was registered under the name; None where none was."""
    version = values.pop(stored.VERSION, version)
    try:
        operation = stored.read_operation(target, version, values, step.shapes)
    except (TypeError, ValueError) as error:
        if isinstance(error, MinixlaError):
            raise
        step.reject(f"{target} {error}", "It was stored with another definition: see its package.")
    return None if operation is None else step.builder.apply(operation, step.operands)


def _tree(attribute: Any) -> Any:
    """An attribute, dictionaries too, as Python's values."""
    if isinstance(attribute, ir.DictAttr):
        return {each.name: _tree(each.attr) for each in attribute}
    return plain(attribute)


def _composite(step: Step) -> Sequence[Value]:
    attributes = step.raw("composite_attributes")
    values = {} if attributes is None else _tree(attributes)
    found = _registered(step, step.get("name"), values, step.get("version", 0))
    return _call("CompositeCall", "decomposition", step) if found is None else found


def _config(step: Step) -> tuple[int, dict[str, Any]]:
    """The version of XLA's interface, and the attributes that the code is given."""
    typed = step.raw("mhlo.backend_config")
    config = step.raw("backend_config") if typed is None else typed
    if isinstance(config, ir.DictAttr):
        return 4, _options(step, config)
    text = plain(config) if config is not None else ""
    return step.get("api_version", 1), {"backend_config": text} if text else {}


# The element type in `5 : i32`, `dense<1> : tensor<3xf32>` and `array<i8: 1, 2>`.
_ELEMENT = re.compile(r"array<(\w+)|tensor<(?:\d+x)*(\w+)>$|: (\w+)$")


def _options(step: Step, dictionary: Any) -> dict[str, Any]:
    """A dictionary attribute as custom calls take it."""
    return {each.name: _option(step, each.name, each.attr) for each in dictionary}


def _option(step: Step, name: str, attribute: Any) -> Any:
    value = plain(attribute)
    if isinstance(value, (bool, str, bytes)):
        return value
    text = str(attribute)
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
    "func.call": partial(_call, "Call", "callee"),
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
}
