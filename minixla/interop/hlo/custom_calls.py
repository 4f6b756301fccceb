"""Custom calls in HLO: those whose meaning is known, and others, which are kept as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.interop.hlo import notation
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.refused import ForeignCallback
from minixla.interop.hlo.step import Nest, Step, leaf_shapes, nest_of, shape_of_nest
from minixla.interop.hlo.syntax import layouts_in

__all__ = ["CUSTOM_CALLS"]

#: Custom calls that say where values shall lie: they give their operand.
_ANNOTATIONS = frozenset(
    [
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "Pin",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "Sharding",
        "Unpin",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
    ]
)
_LAPACK = re.compile(r"lapack_[sdcz](potrf|trsm)_ffi")
_VERSIONS = {
    "API_VERSION_ORIGINAL": 1,
    "API_VERSION_STATUS_RETURNING": 2,
    "API_VERSION_STATUS_RETURNING_UNIFIED": 3,
    "API_VERSION_TYPED_FFI": 4,
}
_OPTION = re.compile(
    r"\s*([\w.$]+)\s*=\s*(?:(true|false)|(\"(?:[^\"\\]|\\.)*+\")|(-?[\w.+\-]+)(?:\s*:\s*(\w+))?)\s*(,|$)",
    re.ASCII,
)
_TYPES = {
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "f32": "float32",
    "f64": "float64",
}


def _custom_call(step: Step) -> Nest:
    target = step.string("custom_call_target")
    if target in _ANNOTATIONS and len(step.operands) == 1:
        (whole,) = step.operands
        if shape_of_nest(whole) is step.shape:
            return whole
    lapack = _LAPACK.fullmatch(target)
    meaning = _MEANINGS.get(target) or (_LAPACK_MEANINGS[lapack[1]] if lapack else None)
    found = meaning(step) if meaning is not None else None
    return _kept(step, target) if found is None else found


def _top_k(step: Step) -> Nest | None:
    """XLA:CPU's TopK: the greatest elements, and where they are."""
    declared = step.shape
    if not isinstance(declared, TupleShape) or not declared.elements:
        return None
    values = declared.elements[0]
    if not isinstance(values, Shape) or not values.rank or len(step.operands) != 1:
        return None
    return step.apply(REGISTRY["TopK"], step.values, {"k": values.dimensions[-1]})


def _cholesky(step: Step) -> Nest | None:
    """LAPACK's potrf: the factor in a triangle of the operand's, and whether there is none.

    The other triangle keeps the operand's elements.
    """
    letters, declared = _letters(step, "uplo"), step.shape
    if letters not in ("L", "U") or not isinstance(declared, TupleShape) or len(step.values) != 1:
        return None
    (operand,), lower = step.values, letters == "L"
    shape, info = operand.shape, declared.elements[-1]
    if len(declared.elements) != 2 or not isinstance(shape, Shape) or not isinstance(info, Shape):
        return None
    found = step.bind("Cholesky", operand, lower=lower)
    rows, columns = (_index(step, shape, shape.rank - each) for each in (2, 1))
    inside = step.bind("Ge" if lower else "Le", rows, columns)
    factor = step.bind("Select", inside, found, operand)
    corner = _first_elements(step, found, shape)
    failed = step.bind(
        "ConvertElementType", _is_nan(step, corner), new_element_type=info.element_type
    )
    return (factor, failed)


def _index(step: Step, shape: Shape, dimension: int) -> Value:
    whole = Shape("s32", shape.dimensions)
    return step.bind("Iota", output_shape=whole, iota_dimension=dimension)


def _first_elements(step: Step, value: Value, shape: Shape) -> Value:
    """The first element of each matrix: a factor that does not exist is NaN everywhere."""
    rank, sizes = shape.rank, shape.dimensions
    limits = {"start_indices": (0,) * rank, "limit_indices": (*sizes[:-2], 1, 1)}
    cut = step.bind("Slice", value, **limits, strides=(1,) * rank)
    return step.bind("Reshape", cut, dimensions=sizes[:-2])


def _is_nan(step: Step, value: Value) -> Value:
    return step.bind("Ne", value, value)


def _triangular_solve(step: Step) -> Nest | None:
    """BLAS's trsm: x of a x = b, or x a = b."""
    letters = _letters(step, "side", "uplo", "diag", "trans_x")
    if not letters or len(step.operands) != 2 or not isinstance(step.shape, Shape):
        return None
    side, uplo, diagonal, transposed = letters
    transposes = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    if side not in "LR" or uplo not in "LU" or diagonal not in "UN" or transposed not in transposes:
        return None
    given = {
        "left_side": side == "L",
        "lower": uplo == "L",
        "unit_diagonal": diagonal == "U",
        "transpose_a": transposes[transposed],
    }
    return step.apply(REGISTRY["TriangularSolve"], step.values, given)


def _letters(step: Step, *names: str) -> str:
    """The characters that options of LAPACK stand for; none where one is missing."""
    options = _options(step) or {}
    found = [options.get(name) for name in names]
    codes = [each[1] if isinstance(each, tuple) else each for each in found]
    is_text = all(isinstance(each, int) and ord("A") <= each <= ord("Z") for each in codes)
    return "".join(map(chr, codes)) if is_text else ""  # type: ignore[arg-type]  # integers


def _slice_to_dynamic(step: Step) -> Nest | None:
    """The operand with the sizes that the other operands say."""
    value, *sizes = step.values
    declared = step.shape
    if not isinstance(declared, Shape) or len(sizes) != declared.rank:
        return None
    for dimension, (size, flag) in enumerate(zip(sizes, declared.dynamic, strict=True)):
        if flag:
            value = step.bind("SetDimensionSize", value, size, dimension=dimension)
    return value


def _pad_to_static(step: Step) -> Nest | None:
    """The operand at its bounds, and its sizes."""
    (value,) = step.values
    shape = value.shape
    if not isinstance(shape, Shape):
        return None
    sizes = [step.bind("GetDimensionSize", value, dimension=at) for at in range(shape.rank)]
    for dimension, flag in enumerate(shape.dynamic):
        if flag:
            literal = Literal(np.array(shape.dimensions[dimension], np.int32), Shape("s32"))
            bound = step.bind("Constant", literal=literal)
            value = step.bind("SetDimensionSize", value, bound, dimension=dimension, to_bound=True)
    return (value, *sizes)


_Meaning = Callable[[Step], "Nest | None"]
_MEANINGS: dict[str, _Meaning] = {
    "TopK": _top_k,
    "SliceToDynamic": _slice_to_dynamic,
    "PadToStatic": _pad_to_static,
}
_LAPACK_MEANINGS: dict[str, _Meaning] = {"potrf": _cholesky, "trsm": _triangular_solve}


def _kept(step: Step, target: str) -> Nest:
    """The call itself, which evaluates where somebody registers what it means."""
    version = _VERSIONS[step.choice("api_version", *_VERSIONS, default="API_VERSION_ORIGINAL")]
    options = _options(step)
    config = step.text("backend_config", "")
    if options is None:
        text = notation.string(config)
        options = {"backend_config": config if text is None else text} if config else {}
    for name in ("called_computations", "to_apply"):
        if step.has(name):  # what the target runs is lost: none may take the call for a plain one
            options[name] = step.text(name)
    given = {
        "target_name": target,
        "shapes": tuple(leaf_shapes(step.shape)),
        "attributes": options,
        "has_side_effect": step.flag("custom_call_has_side_effect"),
        "api_version": version,
        "operand_layouts": None,
        "result_layouts": None,
    }
    if step.has("operand_layout_constraints"):
        constraints = step.text("operand_layout_constraints")
        shapes = [value.shape for value in step.leaves]
        given["operand_layouts"] = _layouts(step, constraints, shapes)
        given["result_layouts"] = _layouts(step, step.instruction.shape_text, given["shapes"])
    is_callback = "python" in target and "callback" in target
    operation = ForeignCallback.instance if is_callback else REGISTRY["CustomCall"]
    results = step.builder.apply(operation, step.leaves, given)
    return nest_of(step.shape, iter(results))


def _layouts(step: Step, text: str, shapes: Sequence[AnyShape]) -> Any:
    """The layouts that a text has for values of these shapes; None where they are row-major."""
    ranks = [shape.rank if isinstance(shape, Shape) else 0 for shape in shapes]
    rows = [tuple(range(rank))[::-1] for rank in ranks]
    found = layouts_in(text)
    if len(found) != len(rows):
        step.reject(f"{len(found)} layouts for {len(rows)} values", "Give one for each value.")
    orders = [row if order is None else order for row, order in zip(rows, found, strict=True)]
    for row, order in zip(rows, orders, strict=True):
        if sorted(order) != sorted(row):
            step.reject(f"{order} is no layout", "A layout names each dimension once.")
    return None if orders == rows else tuple(orders)


def _options(step: Step) -> dict[str, Any] | None:
    """The numbers and strings of a typed configuration, `{uplo = 76 : ui8}`; None for others."""
    text = step.text("backend_config", "")
    if not text.startswith("{") or not text.endswith("}"):
        return None
    found: dict[str, Any] = {}
    body, position = text[1:-1].strip(), 0
    while position < len(body):
        match = _OPTION.match(body, position)
        if match is None:
            return None
        name, truth, quoted, digits, kind = match.groups()[:5]
        value: Any = truth == "true" if truth else notation.string(quoted) if quoted else None
        if digits:
            value = _number(digits, kind or "i64")
        if value is None:
            return None
        found[name] = value
        position = match.end()
    return found


def _number(digits: str, kind: str) -> Any:
    """A number as custom calls take it: the name of its type, and its value."""
    dtype = _TYPES.get(kind)
    if dtype is None or "_" in digits or len(digits) > 40:
        return None
    try:
        value = float(digits) if kind[0] == "f" else int(digits)
        np.dtype(dtype).type(value)
    except (ValueError, OverflowError):
        return None
    return {"i64": int, "f64": float}[kind](value) if kind in ("i64", "f64") else (dtype, value)


#: By opcode.
CUSTOM_CALLS: dict[str, Entry] = {
    "custom-call": entry(
        _custom_call,
        """custom_call_target api_version called_computations to_apply operand_layout_constraints
        output_to_operand_aliasing custom_call_has_side_effect custom_call_schedule
        has_side_effect schedule window dim_labels feature_group_count batch_group_count
        padding_type literal dimension""",
    )
}
