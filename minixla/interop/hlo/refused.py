"""Instructions of HLO that can be looked at, but not evaluated."""

from __future__ import annotations

from typing import NoReturn

from minixla.core.attributes import Integer, ShapeAttribute, Text, attribute
from minixla.core.errors import ImportError_, TransformError, explain
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape
from minixla.interop.hlo.text import SUBJECT
from minixla_ops.host.custom_call import CustomCall

_TEXT = "{...}"


@register
class ElidedConstant(Operation):
    """A constant that a dump shows as `constant({...})`: its shape is known, its value is not.

    Programs that hold one can be read, printed and drawn; what asks for the value is refused.

    Attributes:
        output_shape: the constant's shape.
        label, line: what it is called in the text, and where it stands.
    """

    spec_names = ()
    hlo_name = "constant"
    output_shape: AnyShape = attribute(ShapeAttribute())
    label: str = attribute(Text())
    line: int = attribute(Integer())
    zero_derivative = "it has no operands"
    missing_rules = {"batch": "no operand of it is batched: it has none"}
    batch = Operation.batch

    def shape(self):
        return self.output_shape

    def reference(self):
        self._refuse()

    def stablehlo(self, emit, operands, shapes, results):
        self._refuse()

    def hlo(self, emit, operands, shapes, result):
        return emit.instruction(self.hlo_name, [_TEXT], result)

    def _refuse(self) -> NoReturn:
        raise explain(
            ImportError_,
            SUBJECT,
            f"line {self.line}: the text leaves out the numbers of the constant {self.label}",
            [f"{self.label} = constant({_TEXT})"],
            "Print the program with its large constants (compiler_ir('hlo').as_hlo_text(True), "
            "--xla_dump_large_constants), and import that.",
        )


@register
class ForeignCallback(CustomCall):
    """A call of a Python function of the process that made the program.

    Its number means nothing, or something else, in another process, so that nobody may run it.

    Attributes, checks: see CustomCall.
    """

    spec_names = ()
    hlo_name = "custom-call"

    def reference(self, *args):
        self._refuse()

    def stablehlo(self, emit, operands, shapes, results):
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise explain(
            TransformError,
            SUBJECT,
            f"the target {self.target_name!r} calls a Python function of the program's maker",
            (),
            "It means nothing in another process: leave pure_callback, io_callback and debug "
            "prints out of the program.",
        )
