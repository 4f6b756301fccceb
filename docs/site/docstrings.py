"""Convert docstrings, which have single backticks, to reStructuredText."""

from __future__ import annotations

import re
from typing import Any

#: Code, roles and links; some of JAX's code ends in an additional backtick.
_CODE = re.compile(
    r"(``.+?``|:[\w:]+:`[^`]+`|(?<!`)`[^`\n]+``(?!`)|`[^`]+ <[^`]+>`_{1,2}|`[^`]+`_?)", re.DOTALL
)
#: Signs with a meaning in reStructuredText only.
_MARKS = re.compile(r"[*|\\`]|(?<=\w)_(?=\W|$)")
#: Parameters with stars, which napoleon reads.
_STARS = re.compile(r"(?m)^( *)(\*{1,2})(?=\w+[ :(])")
_CHECK = re.compile(r"^\s*\([A-Z]+\d*[a-z]?\)")
_HEAD = re.compile(r"^\s*[A-Z][A-Za-z ]+:$")


def as_restructured_text(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Change the lines of a docstring in place, as a hook of autodoc."""
    lines[:] = converted(lines)


def without_spaces(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Split joined lines and strip spaces, as a hook after napoleon, so that lists are lists."""
    lines[:] = [line.rstrip() for line in "\n".join(lines).split("\n")]


def converted(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText.

    Text in backticks is code, a line `(C1) ...` is an item of a list, and other signs are literal.
    Examples do not change.
    """
    result: list[str] = []
    prose: list[str] = []
    example, formula = False, 0  # how far the formula is indented, and a column
    for line in [*lines, None]:
        was = example
        if line is not None:
            start = len(line) - len(line.lstrip())
            formula = formula if formula <= start or not line.strip() else 0
            example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
            if line.strip() == ".. math::":
                # MathJax would be loaded from another machine.
                prose, formula = (
                    [*prose, line.replace("math", "code-block") + " tex", ""],
                    start + 1,
                )
                continue
            example = example or formula > 0
        if line is None or (example and not was):
            result += _prose("\n".join(prose)).split("\n") if prose else []
            prose = []
        if line is not None:
            (result if example else prose).append(line)
    return result


def _prose(text: str) -> str:
    parts = _CODE.split("\n".join(_spaced(text.split("\n"))))
    for at, part in enumerate(parts):
        if at % 2 == 0:
            parts[at] = _marked(part)
        elif part.startswith(":math:"):
            parts[at] = f"`{part[len(':math:') :]}`"  # MathJax would be loaded from another machine
        elif part.endswith("`_") and "<" not in part:
            parts[at] = part[1:-2]  # names a link of its original page
        elif part[0] == "`" and part[1] != "`" and part[-1] != "_":
            parts[at] = f"``{' '.join(part.strip('`').split())}``"
        if at and parts[at - 1][-1:] == "`" and parts[at][:1].isalnum():
            parts[at] = "\\ " + parts[at]  # Code and a letter after it
    return "".join(parts)


def _marked(part: str) -> str:
    kept = "\0"
    part = _STARS.sub(lambda match: match[1] + kept * len(match[2]), part)
    part = re.sub(r"(?m)^( *)\* ", rf"\1{kept} ", part)
    return _MARKS.sub(lambda match: "\\" + match[0], part).replace(kept, "*")


def _spaced(lines: list[str]) -> list[str]:
    """Turn checks, and several results, into items of lists."""
    result: list[str] = []
    section, indent, listed = "", 0, -1  # listed: how far the items of a list are indented
    checked = -1  # how far a check is indented, while its lines go on
    for line in lines:
        start = len(line) - len(line.lstrip())
        if _HEAD.match(line):
            section, indent = line.strip(), start + 4
        elif line.strip() and start < indent:
            section = ""
        # A list needs blank lines around it.
        is_item = bool(re.match(r"\s*[-*] ", line))
        if (is_item and start > listed) or (line.strip() and start < listed):
            result.append("")
        listed = start if is_item else listed if start >= listed or not line.strip() else -1
        is_result = section == "Returns:" and start == indent and re.match(r"\s*[a-z]\w*: ", line)
        if is_result and result[-1].strip() == "Returns:":
            result += [
                " " * indent + "A tuple of",
                "",
            ]  # Napoleon reads a word before a colon as a type.
        is_check = bool(_CHECK.match(line))
        if is_check and checked != start and result and result[-1].strip():
            result.append("")  # a list needs a blank line before it
        goes_on = line.strip() and start > checked >= 0
        checked = start if is_check else checked if goes_on else -1
        if is_check or is_result:
            line = f"{line[:start]}* {line[start:]}"
        elif goes_on:
            line = " " * (checked + 2) + line[start:]
        elif section in ("Checks:", "Returns:") and start > indent and result[-1].strip():
            line = " " * (indent + 2) + line[start:]  # goes on
        result.append(line)
    return result
