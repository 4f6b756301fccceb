"""The accuracy that a caller requests for a function with several implementations (rule RA)."""

import re
from dataclasses import dataclass
from typing import Any

from minixla.core.attributes import Attribute
from minixla.core.errors import AttributeValueError, explain

_MODES = ("DEFAULT", "HIGHEST", "TOLERANCE")
_FIELD = r"(atol|rtol|ulps)\s*=\s*([0-9.eE+-]+)"
_MODE = r"result_accuracy_mode<(\w+)>"


@dataclass(frozen=True)
class ResultAccuracy:
    """XLA's ResultAccuracy: it selects an implementation and does not change the function.

    Attributes:
        mode: `DEFAULT`, `HIGHEST`, or `TOLERANCE`, which the three fields below define.
        atol, rtol: the maximum absolute and relative error.
        ulps: the maximum error in steps from one value of the type to the next.

    Raises:
        AttributeValueError: the mode is unknown, a field is negative, fields are given without the
            mode TOLERANCE, or that mode without fields.
    """

    mode: str = "TOLERANCE"
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        problem, fields = "", (self.atol, self.rtol, self.ulps)
        if not isinstance(self.mode, str) or self.mode not in _MODES:
            problem = f"mode must be one of {', '.join(_MODES)}, not {self.mode!r}"
        elif not all(isinstance(field, (int, float)) and field >= 0 for field in fields):
            problem = f"atol, rtol and ulps must be numbers >= 0, not {fields}"
        elif any(fields) != (self.mode == "TOLERANCE"):
            problem = f"mode {self.mode} does not match (atol, rtol, ulps) = {fields}"
        if problem:
            raise explain(AttributeValueError, "ResultAccuracy", problem)

    @classmethod
    def parse(cls, text: str) -> "ResultAccuracy":
        """Parse a mode's name or `#stablehlo.result_accuracy<...>`; else raise ValueError."""
        if text in _MODES:
            return cls(text)
        mode = re.search(_MODE, text)
        if "result_accuracy<" not in text or mode is None:
            raise ValueError(f"{text!r} is neither a mode nor a #stablehlo.result_accuracy")
        fields: dict[str, Any] = {name: float(text) for name, text in re.findall(_FIELD, text)}
        fields["ulps"] = int(fields.get("ulps", 0))
        return cls(mode[1], **fields)

    @property
    def stablehlo(self) -> str:
        """The StableHLO attribute."""
        # MLIR's floats need a decimal point, which `repr` may omit.
        fields = f"atol = {self.atol:.16e}, rtol = {self.rtol:.16e}, ulps = {self.ulps}"
        mode = f"#stablehlo.result_accuracy_mode<{self.mode}>"
        return f"#stablehlo.result_accuracy<{fields}, mode = {mode}>"

    def __str__(self) -> str:
        """Return the HLO notation."""
        if self.mode != "TOLERANCE":
            return f"{{mode={self.mode.lower()}}}"
        return f"{{tolerance={{atol={self.atol!r}, rtol={self.rtol!r}, ulps={self.ulps}}}}}"


class AccuracyAttribute(Attribute):
    """A ResultAccuracy, a value that converts to one, or None, the default."""

    is_ambiguous = False

    description = "a ResultAccuracy, a mode's name, #stablehlo.result_accuracy<...> or None"

    def canonical(self, value: object) -> ResultAccuracy | None:
        if value is None or isinstance(value, ResultAccuracy):
            return value
        if not isinstance(value, str):
            raise TypeError(f"must be a ResultAccuracy or a string, not {value!r}")
        try:
            return ResultAccuracy.parse(value)
        except AttributeValueError as error:
            # The operation adds details to the message.
            raise ValueError(str(error).splitlines()[0]) from None

    def stablehlo(self, value: ResultAccuracy) -> str:
        return value.stablehlo

    def read(self, written: str) -> ResultAccuracy | None:
        accuracy = ResultAccuracy.parse(written)
        return None if accuracy.mode == "DEFAULT" else accuracy
