"""The operations of the search: how to apply each of them, and its element types."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import minixla as mx
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, shape_of
from minixla.core.element_types import ElementType

Apply = Callable[[random.Random, list[Any]], Any]
_TARGETS = [name for name, kind in ELEMENT_TYPES.items() if kind.bits != 6 or kind.is_integer]


class Piece(NamedTuple):
    """An operation: `apply(draws, values)`, where `draws` is a source of random attributes."""

    name: str
    arity: int
    kinds: str  # p(red), s(igned), u(nsigned), f(loat), c(omplex)
    apply: Apply
    is_exact: bool = True

    def takes(self, kind: ElementType) -> bool:
        """Whether the operation accepts elements of a type."""
        return kind.kind[0] in self.kinds


PIECES: dict[str, Piece] = {}


def _add(name: str, arity: int, kinds: str, apply: Apply, is_exact: bool = True) -> None:
    PIECES[name] = Piece(name, arity, kinds, apply, is_exact)


def _builder(name: str) -> Apply:
    return lambda draws, values: getattr(ops, name)(*values)


def _shape(value: Any) -> Any:
    return shape_of(value)


def _number(value: Any, number: Any) -> Any:
    """A scalar constant of a value's element type."""
    with np.errstate(all="ignore"):
        return ops.constant(np.array(number).astype(_shape(value).dtype))


def _flat(value: Any) -> Any:
    return ops.reshape(value, (_shape(value).size,))


for _name, _kinds in {
    "abs": "sfc",
    "neg": "sufc",
    "sign": "sfc",
    "not_": "psu",
    "population_count": "su",
    "clz": "su",
    "floor": "f",
    "ceil": "f",
    "round_nearest_even": "f",
    "round_nearest_afz": "f",
    "is_finite": "f",
    "real": "fc",
    "imag": "fc",
}.items():
    _add(
        _name,
        1,
        _kinds,
        _builder(_name),
        is_exact=_name not in ("sign", "abs") or "c" not in _kinds,
    )
for _name in (
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "sqrt",
    "rsqrt",
    "cbrt",
    "expm1",
    "log1p",
    "logistic",
):
    _add(_name, 1, "f" if _name == "cbrt" else "fc", _builder(_name), is_exact=False)
for _name, _kinds in {
    "max": "psuf",
    "min": "psuf",
    "and_": "psu",
    "or_": "psu",
    "xor": "psu",
    "shift_left": "su",
    "shift_right_logical": "su",
    "shift_right_arithmetic": "su",
    "eq": "psufc",
    "ne": "psufc",
    "lt": "psuf",
    "le": "psuf",
    "gt": "psuf",
    "ge": "psuf",
}.items():
    _add(_name, 2, _kinds, _builder(_name))
for _name, _kinds in {"add": "ps", "mul": "ps"}.items():
    _add(f"{_name} of integers", 2, "psu", _builder(_name))
    _add(_name, 2, "fc", _builder(_name), is_exact=False)
for _name in ("sub", "div", "rem", "pow"):
    _add(f"{_name} of integers", 2, "su", _builder(_name))
    if _name != "rem":
        _add(_name, 2, "fc", _builder(_name), is_exact=False)
for _direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
    _add(
        f"total order {_direction}",
        2,
        "f",
        lambda draws, values, by=_direction: ops.compare(*values, by, total_order=True),
    )
for _name in ("add", "mul", "sub", "max", "eq", "lt", "div", "rem"):
    # Both operands are the same value.
    _add(
        f"{_name} of itself",
        1,
        "su",
        lambda draws, values, name=_name: getattr(ops, name)(values[0], values[0]),
    )
_add("clamp", 3, "psuf", lambda draws, values: ops.clamp(values[1], values[0], values[2]))
_add("select", 2, "psufc", lambda draws, values: ops.select(ops.eq(*values), *values))


def _with_constant(name: str) -> Apply:
    """Return an operation whose second operand repeats one constant."""

    def apply(draws: random.Random, values: list[Any]) -> Any:
        shape = _shape(values[0])
        kind = shape.element_type
        numbers = [0, 1, 2, 3, 4, 64] if kind.kind == "unsigned" else [0, 1, 2, -1, -2, 3, 64]
        number = _number(values[0], draws.choice(numbers))
        return getattr(ops, name)(values[0], ops.broadcast_in_dim(number, shape.dimensions, ()))

    return apply


for _name in (
    "add",
    "mul",
    "max",
    "min",
    "eq",
    "lt",
    "ge",
    "div",
    "rem",
    "pow",
    "shift_left",
    "and_",
):
    _add(f"{_name} with a constant", 1, "su", _with_constant(_name))


def _converted(draws: random.Random, values: list[Any]) -> Any:
    return ops.convert_element_type(values[0], draws.choice(_TARGETS))


def _read(draws: random.Random, values: list[Any]) -> Any:
    bits = _shape(values[0]).element_type.bits
    kinds = [
        name for name in _TARGETS if ELEMENT_TYPES[name].kind in ("signed", "unsigned", "float")
    ]
    return ops.bitcast_convert_type(
        values[0], draws.choice([name for name in kinds if ELEMENT_TYPES[name].bits <= bits])
    )


_add("convert", 1, "psufc", _converted)
_add("bitcast", 1, "suf", _read)
_add(
    "reduce_precision",
    1,
    "f",
    lambda draws, values: ops.reduce_precision(
        values[0], draws.choice([2, 4, 5, 8]), draws.choice([1, 3, 10])
    ),
)

_FOLDS = {"max": "psuf", "min": "psuf", "or_": "psu", "and_": "psu", "add": "psu", "mul": "psu"}


def _identity(name: str, value: Any) -> Any:
    kind = _shape(value).element_type
    if name in ("max", "min"):
        is_low = name == "max"
        if kind.is_float and kind.name.endswith(("fn", "fnu", "fnuz")):
            raise LookupError(f"{kind} has no infinity")
        if kind.is_float:
            return _number(value, -np.inf if is_low else np.inf)
        least = -(1 << (kind.bits - 1)) if kind.kind == "signed" else 0
        most = least + (1 << kind.bits) - 1
        return ops.constant(np.array(least if is_low else most, "O").astype(_shape(value).dtype))
    if name == "and_" and kind.kind != "pred":
        return ops.not_(_number(value, 0))
    return _number(value, 1 if name in ("and_", "mul") else 0)


def _reduced(name: str) -> Apply:
    return lambda draws, values: ops.reduce(
        _flat(values[0]), _identity(name, values[0]), getattr(ops, name), (0,)
    )


def _windows(name: str) -> Apply:
    def apply(draws: random.Random, values: list[Any]) -> Any:
        value = _flat(values[0])
        size = draws.choice([1, 2, 3, _shape(value).size])
        pads = (draws.choice([0, 1, size - 1]), draws.choice([0, 0, 1, -1]))
        init = _identity(name, value)
        return ops.reduce_window(value, init, getattr(ops, name), (size,), (1,), (pads,))

    return apply


for _name, _kinds in _FOLDS.items():
    _add(f"reduce {_name}", 1, _kinds, _reduced(_name))
    _add(f"windows {_name}", 1, _kinds, _windows(_name))


def _argmax(draws: random.Random, values: list[Any]) -> Any:
    value = _flat(values[0])
    indices = ops.iota(mx.Shape("s32", _shape(value).dimensions), 0)

    def greater(a: Any, i: Any, b: Any, j: Any) -> Any:
        is_first = ops.or_(ops.gt(a, b), ops.and_(ops.eq(a, b), ops.lt(i, j)))
        return ops.select(is_first, a, b), ops.select(is_first, i, j)

    return ops.reduce([value, indices], [_identity("max", value), np.int32(99)], greater, (0,))[1]


_add("argmax", 1, "psu", _argmax)
_add("reverse", 1, "psufc", lambda draws, values: ops.rev(_flat(values[0]), (0,)))
_add("broadcast", 1, "psufc", lambda draws, values: ops.broadcast(values[0], (2,)))
_add("join", 2, "psufc", lambda draws, values: ops.concat_in_dim(list(map(_flat, values)), 0))


def _cropped(draws: random.Random, values: list[Any]) -> Any:
    value = _flat(values[0])
    size = _shape(value).size
    start = draws.randint(0, size - 1)
    return ops.slice(value, (start,), (draws.randint(start, size),))


def _padded(draws: random.Random, values: list[Any]) -> Any:
    low, high, between = draws.randint(-1, 2), draws.randint(-1, 2), draws.choice([0, 0, 1])
    return ops.pad(
        _flat(values[0]), _number(values[0], draws.choice([0, 1])), [(low, high, between)]
    )


def _sliced(draws: random.Random, values: list[Any]) -> Any:
    kind = ELEMENT_TYPES[draws.choice(["u8", "u32", "s32", "u64", "s64", "s8"])]
    start = np.array(draws.choice([0, 1, 2, -1])).astype(kind.dtype)
    value = _flat(values[0])
    return ops.dynamic_slice(value, [ops.constant(start)], (max(1, _shape(value).size - 1),))


def _gathered(draws: random.Random, values: list[Any]) -> Any:
    kind = ELEMENT_TYPES[draws.choice(["u8", "u32", "s32", "u64", "s64"])]
    indices = ops.constant(np.array([[0], [1], [-1]]).astype(kind.dtype))
    numbers = ops.GatherDimensionNumbers((), (0,), (0,), 1)
    return ops.gather(_flat(values[0]), indices, numbers, (1,))


def _updated(draws: random.Random, values: list[Any]) -> Any:
    value, others = map(_flat, values)
    numbers = ops.ScatterDimensionNumbers((), (0,), (0,), 1)
    indices = np.arange(_shape(others).size, dtype=np.int32)[:, None] // 2
    return ops.scatter(value, indices, others, lambda a, b: b, numbers, unique_indices=False)


_add("slice", 1, "psufc", _cropped)
_add("pad", 1, "psufc", _padded)
_add("dynamic_slice", 1, "psufc", _sliced)
_add("gather", 1, "psufc", _gathered)
_add("scatter", 2, "psu", _updated)
_add("sort", 1, "psu", lambda draws, values: ops.sort(_flat(values[0])))


def _convolved(draws: random.Random, values: list[Any]) -> Any:
    lhs, rhs = (ops.reshape(x, (1, 1, _shape(x).size)) for x in values)
    return ops.conv_general_dilated(lhs, rhs, (1,), "SAME")


_add("convolution", 2, "su", _convolved)
_add("dot", 2, "psu", lambda draws, values: ops.dot(*map(_flat, values)))


def _counted(draws: random.Random, values: list[Any]) -> Any:
    """Apply a loop with constant bounds of the values' type that combines the values."""
    value = values[0]
    if _shape(value).element_type.bits < 8:
        raise LookupError("the counter would wrap, so the loop would be infinite")
    start, limit, step = draws.choice([(0, 1, 2), (1, 0, 1), (0, 3, 1), (0, 1, 1), (1, 3, 2)])

    def goes_on(i: Any, x: Any) -> Any:
        return ops.lt(i, _number(value, limit))

    def body(i: Any, x: Any) -> Any:
        return ops.add(i, _number(value, step)), ops.xor(x, value_of(x))

    def value_of(x: Any) -> Any:
        return ops.rev(x, (0,))

    return ops.while_(goes_on, body, [_number(value, start), _flat(value)])[1]


_add("loop", 1, "su", _counted)
