"""All computations of an HLO module as graphs."""

from __future__ import annotations

from typing import Any

from minixla.core.errors import ImportError_, MinixlaError
from minixla.core.graph import Graph, Value
from minixla.core.shapes import AnyShape, TupleShape
from minixla.interop.building import Builder
from minixla.interop.hlo.asynchronous import asynchronous
from minixla.interop.hlo.operations import Entry
from minixla.interop.hlo.sources import Sources
from minixla.interop.hlo.step import Nest, Step, leaf_shapes, leaves_of, nest_of, shape_of_nest
from minixla.interop.hlo.syntax import Computation, HloModule, Instruction, Layout
from minixla.interop.hlo.table import IGNORED, OPCODES
from minixla.interop.order import callees_first

__all__ = ["Module"]


class Module:
    """A module under translation.

    Attributes:
        text: the text.
        graphs: the computations that are translated, by name; tuples among their parameters and
            results are flat, member by member.
        depths: how deep computations are nested in each, itself included.
    """

    def __init__(self, module: HloModule) -> None:
        self.text = module.text
        self.graphs: dict[str, Graph] = {}
        self.depths: dict[str, int] = {}
        self._module = module
        self._sources = Sources(module)

    def translate(self) -> None:
        """Makes all graphs, those that are called before those that call.

        Raises:
            ImportError_: the module breaks a rule, or holds what has no counterpart.
        """
        computations = self._module.computations
        for name in self._order():
            computation = computations[name]
            self.graphs[name] = self._graph(computation)
            deepest = max([self.depths[each] for each in computation.callees], default=0)
            self.depths[name] = deepest + 1

    def graph(self, name: str, step: Step, attribute: str) -> Graph:
        """The graph of a computation that is translated already."""
        found = self.graphs.get(name)
        if found is None:
            position = step.instruction.attributes[attribute].position
            problem = f"there is no computation {name}"
            raise self.text.error(position, problem, (), "Define it in the module.")
        return found

    def _order(self) -> list[str]:
        """The computations' names, callees first."""
        computations = self._module.computations

        def recursive(name: str) -> ImportError_:
            advice = "XLA's programs do not recurse: use while."
            problem = f"computation {name} calls itself"
            return self.text.error(computations[name].position, problem, (), advice)

        def missing(caller: str, callee: str) -> ImportError_:
            return self._undefined(computations[caller], callee)

        callees = {name: each.callees for name, each in computations.items()}
        return callees_first(callees, recursive, missing)

    def _undefined(self, computation: Computation, callee: str) -> ImportError_:
        caller = next(each for each in computation.instructions if callee in each.callees)
        problem = f"{caller.opcode}: there is no computation {callee}"
        return self.text.error(caller.position, problem, (), "Define it in the module.")

    def _graph(self, computation: Computation) -> Graph:
        builder = Builder()
        values: dict[str, Nest] = {}
        layouts: dict[str, Layout | None] = {}
        self._parameters(computation, builder, values)
        for instruction in computation.instructions:
            name = instruction.name
            if instruction.opcode != "parameter":
                if name in values:
                    raise self._twice(instruction)
                values[name] = self._value(instruction, builder, values, layouts)
            layouts[name] = instruction.layout
        root = computation.root
        assert root is not None, "the parser gives each computation one"
        self._check_signature(computation, root)
        return builder.graph(leaves_of(builder, values[root.name]), computation.name)

    def _twice(self, instruction: Instruction) -> ImportError_:
        problem = f"{instruction.name} is there twice"
        advice = "Names of instructions are unique in a computation."
        return self.text.error(instruction.position, problem, (), advice)

    def _parameters(
        self, computation: Computation, builder: Builder, values: dict[str, Nest]
    ) -> None:
        """Makes the inputs: the leaves of the parameters, in the order of their numbers."""
        by_number: dict[int, Instruction] = {}
        for each in computation.instructions:
            if each.opcode == "parameter":
                (text,) = each.operands
                number = int(text) if text.isdecimal() and len(text) < 10 else -1
                if number < 0 or number in by_number:
                    problem = f"parameter: its number cannot be {text[:40]!r}"
                    advice = "Parameters are numbered from 0, each number once."
                    raise self.text.error(each.operand_position, problem, (), advice)
                by_number[number] = each
        for number in range(len(by_number)):
            each = by_number.get(number)
            if each is None:
                problem = f"computation {computation.name} has no parameter {number}"
                advice = f"Its {len(by_number)} parameters are numbered from 0."
                raise self.text.error(computation.position, problem, (), advice)
            if each.name in values:
                raise self._twice(each)
            leaves = [Value(shape, None, -1) for shape in leaf_shapes(each.shape)]
            builder.inputs.extend(leaves)
            values[each.name] = nest_of(each.shape, iter(leaves))
        signature = computation.signature
        shapes = [by_number[number].shape for number in range(len(by_number))]
        if signature is not None and signature[0] != shapes:
            given = [_listed("declared", signature[0]), _listed("parameters", shapes)]
            problem = f"computation {computation.name} declares other parameters than it has"
            advice = "The header lists the parameters in the order of their numbers."
            raise self.text.error(computation.position, problem, given, advice)

    def _check_signature(self, computation: Computation, root: Instruction) -> None:
        signature = computation.signature
        if signature is not None and signature[1] is not root.shape:
            given = [f"declared {signature[1]}", f"ROOT {root.shape}"]
            problem = f"computation {computation.name} declares another result than its ROOT"
            advice = "The shape behind -> is that of the ROOT."
            raise self.text.error(computation.position, problem, given, advice)

    def _value(
        self,
        instruction: Instruction,
        builder: Builder,
        values: dict[str, Nest],
        layouts: dict[str, Layout | None],
    ) -> Nest:
        opcode = instruction.opcode
        entry = OPCODES.get(opcode) or asynchronous(opcode, OPCODES)
        if entry is None:
            advice = "Opcodes are XLA's, such as add, dot, fusion: see python -m minixla ops."
            raise self.text.error(instruction.position, f"opcode {opcode} is not known", (), advice)
        self._check_attributes(instruction, entry)
        builder.source = self._sources.of(instruction)
        names = instruction.operands if entry.reads else []
        try:
            operands = [values[name] for name in names]
            step = Step(instruction, builder, self, operands, [layouts[each] for each in names])
        except KeyError as error:
            raise self._unknown(instruction, error.args[0]) from None
        try:
            nest = entry.translation(step)
        except ImportError_:
            raise
        except MinixlaError as error:
            # What the grammar lets pass and our rules do not.
            problem, *rest = str(error).splitlines()
            given = [each.strip() for each in rest if not each.startswith("  called at ")]
            advice = "The program breaks a rule of the operation."
            raise step.error(problem, advice, given) from error
        except (ValueError, OverflowError) as error:
            raise step.error(str(error), "The program breaks a rule of HLO.") from error
        if not _fits(nest, instruction.shape, entry.loose):
            found = shape_of_nest(nest)
            raise step.error(
                f"the result is declared {instruction.shape}, but is {found}",
                "The declared shape must follow from the operands and attributes.",
            )
        return nest

    def _check_attributes(self, instruction: Instruction, entry: Entry) -> None:
        for name, value in instruction.attributes.items():
            if name not in IGNORED and name not in entry.attributes:
                problem = f"{instruction.opcode}: attribute {name} is not known"
                listed = ", ".join(sorted(entry.attributes)) or "none"
                advice = f"It may change what is computed. Its attributes are: {listed}."
                raise self.text.error(value.position, problem, (), advice)

    def _unknown(self, instruction: Instruction, name: str) -> ImportError_:
        problem = f"{instruction.opcode}: there is no value {name} before it"
        advice = "Operands are defined in the same computation, on a line before."
        return self.text.error(instruction.operand_position, problem, (), advice)


def _listed(what: str, shapes: Any) -> str:
    return f"{what} ({', '.join(map(str, shapes))[:300]})"


def _fits(nest: Nest, declared: AnyShape, loose: bool) -> bool:
    """Whether a value has the declared shape; `loose`: as far as two members of a tuple."""
    found = shape_of_nest(nest)
    if found is declared or not loose:
        return found is declared
    if not isinstance(found, TupleShape) or not isinstance(declared, TupleShape):
        return False
    # Contexts of asynchronous operations differ from backend to backend.
    return len(declared.elements) >= 2 and found.elements[:2] == declared.elements[:2]
