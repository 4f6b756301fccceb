"""The lines of the user's program that instructions come from, as HLO's metadata say."""

from __future__ import annotations

import re
from functools import lru_cache

from minixla.core.source import Source
from minixla.interop.hlo import notation
from minixla.interop.hlo.syntax import HloModule, Instruction
from minixla.interop.values import source_at

__all__ = ["Sources"]

_LINE = re.compile(r"\bsource_line=(\d{1,9})\b", re.ASCII)
_FRAME = re.compile(r"\bstack_frame_id=(\d{1,9})\b", re.ASCII)
_FIELD = re.compile(r"(?<!\w)(\w++)=(\d{1,9})\b", re.ASCII)


class Sources:
    """Finds the source line of each instruction of a module; else its line in the HLO text."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._known: dict[str, Source | None] = {}

    def of(self, instruction: Instruction) -> Source:
        """The user's line, or that of the HLO text where the text says nothing of the user's."""
        metadata = instruction.attributes.get("metadata")
        if metadata is not None:
            text = metadata.text
            if text not in self._known:
                self._known[text] = self._read(text)
            found = self._known[text]
            if found is not None:
                return found
        return source_at("<hlo>", instruction.name, self._module.text.line(instruction.position))

    def _read(self, metadata: str) -> Source | None:
        strings = notation.strings(metadata)
        line = _LINE.search(metadata)
        if "source_file" in strings and line is not None:
            name = strings.get("op_name", "program")
            return source_at(strings["source_file"], name, int(line[1]))
        frame = _FRAME.search(metadata)
        return None if frame is None else self._of_frame(int(frame[1]))

    def _of_frame(self, number: int) -> Source | None:
        """What the tables of a module say of a stack frame."""
        tables = self._module.tables
        frame = _numbers(tables.get("StackFrames", {}).get(number, ""))
        location = _numbers(
            tables.get("FileLocations", {}).get(frame.get("file_location_id", 0), "")
        )
        file = tables.get("FileNames", {}).get(location.get("file_name_id", 0))
        function = tables.get("FunctionNames", {}).get(location.get("function_name_id", 0))
        if file is None or "line" not in location:
            return None
        name = notation.string(function or "") or "program"
        return source_at(notation.string(file) or "", name, location["line"])


@lru_cache(maxsize=1024)
def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _FIELD.findall(text)}
