"""Random calls of builders whose arguments are wrong, or nearly right."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import minixla_ops as ops
from minixla.core.attributes import Literal
from minixla.core.shapes import TOKEN, Shape, TupleShape
from minixla.core.tracing import GraphTrace, current_trace, trace_to_graph, tracing
from tests.programs.domains import ANY
from tests.programs.draft import Draft
from tests.programs.table import TABLE

#: What no builder takes, or few do.
PLAIN: list[Any] = [
    *(None, "x", "", b"x", "SAME", "f32", True, ..., slice(None), object, object()),
    *(-1, 0, 1, 2, 3, 2**31, 2**63, 2**70, -(2**40), 1.5, float("nan"), float("inf"), 1j),
    *((), [], [[0]], [[1, 2], [3]], (0, 0), (-1,), (None,), ("a",), (1.5,), (2**70,), [True]),
    *([2**31, 2**31], ((0, 0),), [(0, 0, 0)], ([], []), (([0], [0]), ([], [])), range(2)),
    *({"a": 1}, {1, 2}, np.float32(1), np.int64(1), Shape("f32", (2,)), TOKEN),
    *(np.array([1, 2]), np.array("x"), np.array([None]), np.array([]), TupleShape([Shape("f32")])),
    *(ops.add, ops.lt, lambda *values: None, lambda *values: values, Literal(np.zeros(2))),
    trace_to_graph(lambda x: [x], [Shape("f32")])[0],
]
_TRACED = [
    *(Shape("f32"), Shape("s32", (2,)), Shape("f32", (2, 3)), Shape("pred"), Shape("c64", (2,))),
    *(Shape("f8e5m2", (2,)), Shape("f32", (0,)), TOKEN, TupleShape([Shape("f32"), Shape("s32")])),
]
_WORDS = "SAME VALID DEFAULT EQ LT f32 s8 c64 rng_philox TRANSPOSE ADJOINT FFT"


class Attempt(NamedTuple):
    """What came of a call.

    Attributes:
        call: the builder's name and arguments.
        text: the program in StableHLO, where the call was taken and gave values.
        error: what it raised.
    """

    call: tuple[str, Sequence[Any], dict[str, Any]]
    text: str | None = None
    error: BaseException | None = None


@st.composite
def attempts(draw: Any, name: str) -> Attempt:
    """A call of the builder `name` with random arguments: most are right but for one or two."""
    trace = GraphTrace(current_trace())
    draft = Draft(draw, trace, ("f32", "s32"), ANY)
    builder = getattr(ops, name)
    with tracing(trace), np.errstate(all="ignore"):
        row = TABLE.get(name)
        call = row.call(draft) if row is not None and not draft.chance(6) else None
        arguments, keywords = _anything(draft, builder) if call is None else _changed(draft, call)
        found = name, arguments, keywords
        try:
            result = builder(*arguments, **keywords)
            if result is None or not name[0].islower():
                return Attempt(found)
            results = result if isinstance(result, (list, tuple)) else [result]
            return Attempt(found, trace.graph(results).stablehlo())
        except Exception as error:
            return Attempt(found, error=error)


def _wrong(draft: Draft) -> Any:
    at = draft.integer(0, len(PLAIN) + len(_TRACED) + 1)
    if at < len(PLAIN):
        return PLAIN[at]
    if at < len(PLAIN) + len(_TRACED):
        return draft.trace.add_input(_TRACED[at - len(PLAIN)])
    traced = [draft.trace.add_input(shape) for shape in _TRACED[:2]]
    return traced if at == len(PLAIN) + len(_TRACED) else [traced[0], None]


def _anything(draft: Draft, builder: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Wrong arguments, as many as the builder takes."""
    arguments, keywords = [], {}
    for each in inspect.signature(builder).parameters.values():
        if each.kind is each.VAR_POSITIONAL:
            arguments += [_wrong(draft) for _ in range(draft.choice((0, 3, 5)))]
        elif each.kind is each.KEYWORD_ONLY:
            keywords[each.name] = _wrong(draft)
        elif each.kind is not each.VAR_KEYWORD:
            if each.default is not each.empty and draft.chance():
                break
            arguments.append(_wrong(draft))
    return arguments, keywords


def _changed(draft: Draft, call: Any) -> tuple[list[Any], dict[str, Any]]:
    """A right call, one or two arguments of which become others."""
    arguments, keywords = [*call[0]], dict(call[1])
    places = [*range(len(arguments)), *keywords]
    for _ in range(draft.integer(1, 2) if places else 0):
        at = draft.choice(places)
        where: Any = arguments if isinstance(at, int) else keywords
        where[at] = _wrong(draft) if draft.chance(3) else _near(draft, where[at])
    return arguments, keywords


def _near(draft: Draft, value: Any) -> Any:
    """Something like `value`."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draft.integer(-3, 3)
    if isinstance(value, str):
        return draft.choice(_WORDS.split())
    if isinstance(value, (list, tuple)):
        return _near_list(draft, value)
    if isinstance(value, Shape):
        return Shape(draft.choice(("f32", "s8", "pred", "c64")), draft.sizes())
    if callable(value):
        return draft.choice((ops.add, ops.lt, ops.neg, ops.select, lambda *xs: xs, lambda *xs: ()))
    return draft.array()


def _near_list(draft: Draft, values: Any) -> Any:
    changed, way = [*values], draft.integer(0, 3)
    at = draft.integer(0, max(len(changed) - 1, 0))
    if hasattr(values, "_fields"):  # dimension numbers have all of their fields
        changed[at] = _near(draft, changed[at])
        return type(values)(*changed)
    if way == 0:
        return changed[:at] + changed[at + 1 :]
    if way == 1:
        changed.insert(at, changed[at] if changed else draft.integer(-1, 2))
    elif changed:
        changed[at] = _wrong(draft) if way == 2 else _near(draft, changed[at])
    return type(values)(changed)
