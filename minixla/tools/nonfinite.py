"""The places where NaN and infinities begin in a program.

An element that is not finite is followed back through the instructions, in the reference's values.
The search ends at the first instruction that makes it from finite operands. `causes` finds the
responsible element of an operand by evaluating the instruction again with some elements replaced.
Infinities of constants and inputs are intended; a NaN that is made from them is not.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Graph, Instruction, Value
from minixla.tools import graph_parts
from minixla.tools.causes import Element, cause, is_bad
from minixla.tools.checked_function import CheckedFunction
from minixla.tools.comparison import shown_element, wide
from minixla.tools.graph_parts import every_step, inlined, inner_runs, is_array, is_inexact
from minixla.tools.ranges import harmful_casts
from minixla.tools.reports import Finding
from minixla.tools.rounding import declared_values, in_double
from minixla_ops.programs.reference_evaluation import reference_graph

#: The maximum number of iterations of a loop that are searched.
_MOST_TRIPS = 2000
#: The maximum number of elements of an output that are followed back.
_MOST_ELEMENTS = 8
# Operations with poles: an infinite result is exact there.
_POLES = {"Log", "Log1p", "Rsqrt", "Atanh", "ErfInv", "Lgamma", "Digamma", "Polygamma", "Zeta"}
# Their results are never 0 for finite operands.
_NEVER_ZERO = {"Exp", "Logistic", "Erfc", "Cosh", "Rsqrt", "Igammac"}


class Program(NamedTuple):
    """A program and its values, as the reference computes them.

    Attributes:
        graph: the program, without calls.
        values: all its values.
        kind: "result", "jvp" or "vjp".
        moving: the values that depend on tangents or cotangents.
        forward: the program of the function itself.
    """

    graph: Graph
    values: dict[Value, Any]
    kind: str
    moving: frozenset[Value]
    forward: "Forward"


class Forward:
    """The function whose derivatives are searched: its program and operands."""

    def __init__(self, graph: Graph, operands: Sequence[Any]) -> None:
        self.graph, self._operands = inlined(graph.silent()).pruned(), operands
        #: True if the function itself has findings: derivatives inherit its NaN and infinities.
        self.is_faulty = False

    @cached_property
    def values(self) -> dict[Value, Any]:
        """Every value of the program."""
        return declared_values(self.graph, self._operands)

    def differentiated(self, step: Instruction) -> Instruction | None:
        """Return the instruction of the function whose derivative contains `step`."""
        key = None if step.source is None else step.source.key
        same = [x for x in every_step(self.graph) if x.source and x.source.key == key]
        same = [x for x in same if x.operands and any(map(is_inexact, x.shapes))]
        if len(same) > 1:
            steep = [x for x in same if x in self.graph.instructions and self._is_steep(x)]
            same = steep[:1] or same
        return same[-1] if same else None

    def inherits(self, step: Instruction) -> bool:
        """Test whether an instruction reads a NaN or an infinity that the function itself makes."""
        if not self.is_faulty or step not in self.graph.instructions:
            return False
        return any(is_bad(self.values[operand]).any() for operand in step.operands)

    def _is_steep(self, step: Instruction) -> bool:
        """Test whether the derivative of an instruction is infinite or NaN at its operands."""
        program = graph_parts.alone_at(step, [self.values[x] for x in step.operands])
        if program is None or not all(map(is_array, program[0].inputs)):
            return False
        alone, operands = program
        function = CheckedFunction.of_graph(alone, operands)
        derivative = function.program("vjp") if function.has_derivatives else ""
        if isinstance(derivative, str):
            return False
        return any(is_bad(result).any() for result in reference_graph(*derivative))

    def arm(self, step: Instruction) -> tuple[Instruction, str] | None:
        """Return the select that drops the result of an instruction, and the operand's name."""
        inner = (graph for x in every_step(self.graph) for graph in x.op.computations)
        graph = next((x for x in (self.graph, *inner) if step in x.instructions), None)
        for choice in () if graph is None else graph.instructions:
            if choice.op.name == "Select":
                for name, value in zip(("on_true", "on_false"), choice.operands[1:], strict=True):
                    if graph is not None and step in graph_parts.needed_for(value, graph):
                        return choice, name
        return None


def dependent(graph: Graph, inputs: Sequence[Value]) -> frozenset[Value]:
    """Return the values of a program that depend on some of its inputs."""
    moving = set(inputs)
    for step in graph.instructions:
        if moving.intersection(step.operands):
            moving.update(step.results)
    return frozenset(moving)


def findings(program: Program) -> list[Finding]:
    """Return a finding for each place where a NaN or an infinity of an output begins."""
    found: dict[Any, Finding] = {}
    for output in dict.fromkeys(program.graph.outputs):
        for index in _bad_elements(program.values[output]):
            finding = _origin(program, Element(output, index))
            if finding is not None:
                found.setdefault((finding.kind, finding.operation, finding.source), finding)
    casts = harmful_casts(program.graph, program.values) if program.kind == "result" else ()
    for step, marks in casts:
        element = Element(step.results[0], tuple(int(n) for n in np.argwhere(marks)[0]))
        if (finding := _finding(program, element, None)) is not None:
            found.setdefault((finding.kind, finding.operation, finding.source), finding)
    return list(found.values())


def _bad_elements(array: Any) -> Iterator[tuple[int, ...]]:
    """Yield the indices of some NaN and infinities: the first, the last, and some between."""
    if not isinstance(array, np.ndarray) or not is_bad(array).any():
        return
    numbers = wide(array)
    reals = np.real(numbers)
    for special in (np.isnan(numbers), np.isposinf(reals), np.isneginf(reals)):
        places = np.argwhere(special)
        picked = np.linspace(0, len(places) - 1, min(len(places), _MOST_ELEMENTS)).astype(int)
        for place in places[picked]:
            yield tuple(map(int, place))


def _origin(program: Program, element: Element) -> Finding | None:
    """Return where an element that is not finite begins; None if a constant or input holds it."""
    values = program.values
    born: Element | None = None  # where a NaN is made of an infinity
    while (step := element.value.instruction) is not None and step.operands:
        inside = _inside(program, step)
        if inside is not None:
            return inside
        before = cause(step, values, element)
        if before is None and inner_runs(step, [values[x] for x in step.operands]) is not None:
            # Nothing begins inside: an operand is responsible, perhaps among others.
            before = _first_bad(step, values)
        if before is None:
            return _finding(program, element, born)
        if _is_nan(values, element) and not _is_nan(values, before):
            born = element
        element = before
    if born is not None:
        return _finding(program, born, born)
    is_constant = step is not None and _is_nan(values, element)
    return _finding(program, element, None) if is_constant else None


def _first_bad(step: Instruction, values: dict[Value, Any]) -> Element | None:
    """Return an element of an operand that is not finite."""
    for operand in step.operands:
        for index in _bad_elements(values[operand]):
            return Element(operand, index)
    return None


def _is_nan(values: dict[Value, Any], element: Element) -> bool:
    return bool(np.isnan(wide(values[element.value])[element.index]))


def _inside(program: Program, step: Instruction) -> Finding | None:
    """Return where a loop or a branch makes its results infinite or NaN."""
    operands = [program.values[value] for value in step.operands]
    is_moving = [value in program.moving for value in step.operands]
    for graph, arguments in inner_runs(step, operands, _MOST_TRIPS) or ():
        if not any(is_bad(result).any() for result in reference_graph(graph, arguments)):
            continue
        flat = inlined(graph).pruned()
        # A branch does not read its own index.
        inputs = is_moving[len(is_moving) - len(flat.inputs) :]
        moving = _moving_inside(flat, inputs)
        inner = Program(
            flat, declared_values(flat, arguments), program.kind, moving, program.forward
        )
        found = findings(inner)
        if found:
            return found[0].within(step, program.graph, graph)
    return None


def _moving_inside(graph: Graph, is_moving: Sequence[bool]) -> frozenset[Value]:
    """Return the values of a body that depend on tangents, also through earlier iterations."""
    flags = list(is_moving)
    while True:
        moving = dependent(graph, [x for x, flag in zip(graph.inputs, flags, strict=True) if flag])
        if len(graph.outputs) != len(flags):
            return moving
        pairs = zip(flags, graph.outputs, strict=True)
        again = [flag or value in moving for flag, value in pairs]
        if again == flags:
            return moving
        flags = again


def _finding(program: Program, element: Element, born: Element | None) -> Finding | None:
    """Return the finding for an element that is not finite, and for the NaN made from it."""
    step, values = element.value.instruction, program.values
    assert step is not None
    kind = _kind(step, values, element)
    wide_step = _widened(step) if kind == "cast out of range" else None
    if wide_step is not None:
        kind = "overflow"
    last = born or element
    is_derivative = program.kind != "result"
    if is_derivative and _is_zero_product(program, last):
        kind = "zero times infinity"
    elif kind in ("division by zero", "invalid"):
        small = _underflow(program.graph, values, step, element.index)
        if small is not None:
            return _underflow_finding(program, small, step)
    named = program.forward.differentiated(step) if is_derivative else None
    if named is not None and program.forward.inherits(named):
        return None
    shown = _shown_values(step, values, element)
    step = wide_step or step
    text = _explanation(kind, step, named, element, shown["result"])
    last_step = last.value.instruction
    assert last_step is not None
    if last != element and kind != "zero times infinity":
        text += f"; {last_step.op.builder_name} turns it into NaN, called at {last_step.source}"
    advice = _advice(program, kind, named or step, last_step)
    place = {"element": element.index or None, "explanation": text, "advice": advice}
    finding = Finding(kind, values=shown, **place)
    if named is None:
        return finding.at(step, program.graph, program.kind)
    forward = program.forward
    if named not in forward.graph.instructions:  # it is in a loop or a branch
        finding = finding.at(step, program.graph, program.kind)
        return finding._replace(operation=named.op.builder_name, source=str(named.source))
    there = Element(named.results[0], element.index)
    is_own = named.op.name == step.op.name
    if not is_own and there.value.shape == element.value.shape:
        shown = {
            **_shown_values(named, forward.values, there),
            f"{step.op.builder_name} in the derivative": shown["result"],
        }
    finding = finding.at(named, forward.graph, "result")
    return finding._replace(program=program.kind, values=shown)


def _is_zero_product(program: Program, element: Element) -> bool:
    """Test whether an element is NaN because a zero tangent or cotangent is in a product."""
    step = element.value.instruction
    assert step is not None
    read = (program.values[value] for value in step.operands)
    has_zero = any(isinstance(x, np.ndarray) and bool(np.any(x == 0)) for x in read)
    return element.value in program.moving and has_zero and _is_nan(program.values, element)


def _explanation(
    kind: str, step: Instruction, named: Instruction | None, element: Element, result: str
) -> str:
    """Describe what happens in an instruction, or in the derivative of the named one."""
    names = {"type": element.value.shape, "result": result}
    if not step.operands:
        return f"{step.op.builder_name} is NaN in the program"
    if named is None or named.op.name == step.op.name or kind == "zero times infinity":
        return _TEXTS[kind].format(name=(named or step).op.builder_name, **names)
    text = _TEXTS[kind].format(name=step.op.builder_name, **names)
    return f"in the derivative of {named.op.builder_name}, {text}"


def _widened(step: Instruction) -> Instruction | None:
    """Return the instruction whose result a cast returns to its type, in the same expression."""
    producer = step.operands[0].instruction
    if producer is None or producer.source is None or step.source is None:
        return None
    is_same = producer.source.key == step.source.key
    return producer if is_same and producer.operands else None


_TEXTS = {
    "overflow": "{name} gives {result} for finite operands, because the value does not fit {type}",
    "division by zero": "{name} divides by zero or has a pole there, and gives {result}",
    "invalid": "{name} gives {result}: its operands are outside its domain",
    "zero times infinity": "the derivative of {name} is infinite or undefined there, and a tangent "
    "or cotangent that is 0 is multiplied by it: the product is NaN",
    "cast out of range": "the cast gives {result}, because the value does not fit {type}",
}


def _advice(program: Program, kind: str, step: Instruction, last: Instruction) -> str:
    arm = program.forward.arm(step) if program.kind != "result" else None
    if arm is not None:
        choice, name = arm
        function = step.op.builder_name
        return (
            f"The operand {name} of the select at {choice.source} is not chosen there, but its "
            f"derivative is computed: select a safe operand before it as well, "
            f"where(c, {function}(where(c, x, 1)), ...)."
        )
    if kind == "overflow" and step.op.name == "Exp":
        return "Subtract the maximum before exp, or use logsumexp, softmax or log_softmax."
    if program.kind == "result" and last is not step and last.op.name == "Mul":
        return "Use `where` in place of a product with a mask, with a safe operand in both arms."
    return ""


def _shown_values(step: Instruction, values: dict[Value, Any], element: Element) -> dict[str, str]:
    """Return the operands of an instruction at an element, and its result."""
    shown = {}
    for number, operand in enumerate(step.operands):
        array = values[operand]
        if not isinstance(array, np.ndarray) or not array.size:
            continue
        if array.shape == values[element.value].shape:
            shown[f"operand {number}"] = shown_element(array, element.index)
        elif array.ndim == 0:
            shown[f"operand {number}"] = str(array[()])
        elif element_type(array.dtype).is_inexact:
            with np.errstate(all="ignore"):
                shown[f"operand {number}"] = f"up to {np.abs(wide(array)).max():.3g} in size"
    return {**shown, "result": shown_element(values[element.value], element.index)}


def _kind(step: Instruction, values: dict[Value, Any], element: Element) -> str:
    """Return how an instruction makes an element infinite or NaN from finite operands."""
    name = step.op.name
    result = wide(values[element.value])[element.index]
    operands = [_at(values[value], element.index) for value in step.operands]
    if name == "ConvertElementType":
        return "cast out of range"
    if np.isnan(result) and not _has_infinity(values[element.value].dtype):
        result = _in_double(step, values, element)  # the type has NaN in place of infinities
    if name in _POLES and not np.isnan(result):
        return "division by zero"
    if "Solve" in name and any(_is_singular(values[operand]) for operand in step.operands):
        return "division by zero"
    if name == "Div" and operands[1] == 0 and operands[0] != 0:
        return "division by zero"
    if name == "Pow" and operands[0] == 0 and np.real(operands[1]) < 0:
        return "division by zero"
    # The parts of a complex product that overflows may cancel.
    is_product = values[element.value].dtype.kind == "c" and name in ("Mul", "Exp")
    return "invalid" if np.isnan(result) and not is_product else "overflow"


def _is_singular(array: Any) -> bool:
    """Test whether a triangular matrix, or one of a batch, has a 0 on its diagonal."""
    is_matrix = isinstance(array, np.ndarray) and array.ndim >= 2
    if not is_matrix or array.shape[-1] != array.shape[-2]:
        return False
    return bool((np.diagonal(array, axis1=-2, axis2=-1) == 0).any())


def _has_infinity(dtype: np.dtype) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isinf(wide(np.asarray(np.inf).astype(dtype))))


def _in_double(step: Instruction, values: dict[Value, Any], element: Element) -> Any:
    with np.errstate(all="ignore"):
        program = graph_parts.alone_at(step, [values[value] for value in step.operands])
        assert program is not None
        return in_double(*program)[element.value.index][element.index]


def _at(array: Any, index: tuple[int, ...]) -> Any:
    """Return the element of an operand of an element-wise operation; NaN for other operands."""
    if not isinstance(array, np.ndarray) or array.ndim not in (0, len(index)):
        return np.nan
    array = wide(array) if element_type(array.dtype).is_inexact else array
    try:
        return array[index if array.ndim else ()]
    except IndexError:
        return np.nan


def _underflow(
    graph: Graph, values: dict[Value, Any], step: Instruction, index: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...]] | None:
    """Return the instruction whose result is rounded to the zero that another one reads."""
    pending: list[tuple[Value, tuple[int, ...] | None]] = [(x, index) for x in step.operands]
    seen = set()
    for value, where in pending:  # the list grows
        array, maker = values[value], value.instruction
        if value in seen or maker is None or not isinstance(array, np.ndarray):
            continue
        seen.add(value)
        zeros = np.asarray(array == 0)
        if where is not None and len(where) == array.ndim and _fits(where, array):
            zeros = zeros & _only(array.shape, where)
        else:
            where = None
        if not zeros.any() or not is_inexact(value.shape):
            continue
        rounded = zeros & underflows(maker, values)
        if rounded.any():
            return maker, tuple(int(n) for n in np.argwhere(rounded)[0])
        is_same = maker.op.is_elementwise
        pending += [(operand, where if is_same else None) for operand in maker.operands]
    return None


def _fits(index: tuple[int, ...], array: np.ndarray) -> bool:
    return all(n < size for n, size in zip(index, array.shape, strict=True))


def _only(sizes: tuple[int, ...], index: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros(sizes, bool)
    mask[index] = True
    return mask


def underflows(step: Instruction, values: dict[Value, Any]) -> np.ndarray:
    """Mark the zeros in the result of an instruction whose exact value is not zero."""
    result = values[step.results[0]]
    if not isinstance(result, np.ndarray) or not is_inexact(step.results[0].shape):
        return np.zeros(np.shape(result), bool)
    operands = [values[value] for value in step.operands]
    arrays = [wide(x) for x in operands if isinstance(x, np.ndarray) and x.dtype.kind != "b"]
    nonzero = [np.isfinite(x) & (x != 0) for x in arrays]
    zeros, name = wide(result) == 0, step.op.name
    if name in _NEVER_ZERO:
        return zeros & np.isfinite(arrays[0])
    if name == "Mul" or (name == "Div" and len(arrays) == 2):
        return zeros & nonzero[0] & nonzero[1]
    if name in ("Pow", "ConvertElementType", "ReducePrecision") and nonzero:
        return zeros & nonzero[0] & (np.isfinite(arrays[-1]))
    products = [x for graph in step.op.computations for x in graph.instructions]
    if name in ("Reduce", "ReduceWindow") and [x.op.name for x in products] == ["Mul"]:
        return zeros & bool(nonzero[0].all())
    return np.zeros(result.shape, bool)


def _underflow_finding(program: Program, small: Any, reader: Instruction) -> Finding:
    step, index = small
    result = step.results[0]
    shown = _shown_values(step, program.values, Element(result, index))
    text = f"{step.op.builder_name} gives 0, because the value is too small for {result.shape}; "
    text += f"{reader.op.builder_name} divides by it or has a pole at it, called at {reader.source}"
    finding = Finding("underflow", element=index or None, values=shown, explanation=text)
    return finding.at(step, program.graph, program.kind)
