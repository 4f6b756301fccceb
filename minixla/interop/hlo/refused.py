"""Instructions of HLO that can be looked at, but not evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from minixla.core.attributes import Integer, ShapeAttribute, Text
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
    attributes = {"output_shape": ShapeAttribute(), "label": Text(), "line": Integer()}
    zero_derivative = "it has no operands"
    missing_rules = {"batch": "no operand of it is batched: it has none"}
    batch = Operation.batch

    def shape(self, *, output_shape: AnyShape, label: str, line: int) -> AnyShape:
        """The declared shape."""
        return output_shape

    def reference(self, *, label: str, line: int, **_: Any) -> Any:
        """Refuses: there is no value."""
        self._refuse(label, line)

    def stablehlo(self, *_: Any, label: str, line: int, **attributes: Any) -> Sequence[str]:
        """Refuses: there is no value."""
        self._refuse(label, line)

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        **_: Any,
    ) -> str:
        """The text that it was read from."""
        return emit.instruction(self.hlo_name, [_TEXT], result)

    def _refuse(self, label: str, line: int) -> NoReturn:
        raise explain(
            ImportError_,
            SUBJECT,
            f"line {line}: the text leaves out the numbers of the constant {label}",
            [f"{label} = constant({_TEXT})"],
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

    def reference(self, *args: Any) -> Any:
        """Refuses: the function is not here."""
        self._refuse()

    def stablehlo(self, *_: Any) -> Sequence[str]:
        """Refuses: the function is not here."""
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
