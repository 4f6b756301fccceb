"""Check the language of docs, docstrings, comments and messages: `python -m tests.language [FILE]`.

Report phrases that do not belong in plain technical English, and sentences that are too long.
A comment `language: REASON` on the line where a paragraph begins silences its findings.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/NOTES.md", "docs/*.md"]
SOURCES = ["minixla", "minixla_ops", "benchmarks", "examples", "docs"]
LONGEST_SENTENCE, LONGEST_CELL = 25, 30  # words
PHRASES = r"""
name the thing, a relative clause needs a head :: ^What (?![^?]*\?)
begin with the subject :: ^(Of|Whether|Which) (?!course)(?![^?]*\?)
split the sentence, or name the thing :: \bof (which|those|such|whose)\b
write `is not a` or `there is no` :: \b(is|are|was|were|be) no (?!(longer|more|less|fewer|other)\b)
write `has no X` :: \b(has|have|had|with|holds?|is|are) none\b(?! of)
write `NumPy's X` :: \b(an?|the|\w+s) of ([A-Z]\w+|StableHLO|ours|theirs|one|its)'s\b(?! [a-z])
write `its own X` :: \w of (our|their|its|one's) own\b
write `is missing`, `is not installed` or `does not exist` :: \b(is|are|was) not (here|there)\b
write it plainly :: \b(whoever|nobody|so (many|often)|ever|in silence|one's own|to the last bit)\b
write `fix` or `sharded along` :: \b(mend(s|ed|ing)?|cut along)\b
write `only` :: (?<!stand-)(?<!leave )(?<!left )\balone\b
write `except` :: \bbut (for|by|of) (the|its|their|a|an|those)\b
name the thing :: \bwhat(ever)? (is|are|it|they) (given|found|made|kept|shown|known)\b
write `raise`, `reject` or `is not supported` :: \brefus(es?|ed|ing)\b
"""  # advice :: pattern
COMPILED = [(re.compile(p), a) for a, p in (x.split(" :: ") for x in PHRASES.split("\n")[1:-1])]
BOUNDARY = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=[^\w\s-]*[A-Z0-9`<])|\n\s*\n|\n\s*(?:[-*]|\d+\.) |[;:]\s"
)
Prose = Iterator[tuple[int, str, int]]  # line, text, limit of a sentence in words


def markdown(text: str) -> Prose:
    """Yield the paragraphs and cells of a page."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in re.finditer(r"(?:^(?!\s*$).*\n?)+", text, re.M):
        line = text.count("\n", 0, block.start()) + 1
        rows = block[0].split("\n")
        for offset, row in enumerate(rows):
            if row.startswith("|"):
                yield from ((line + offset, cell.strip(), LONGEST_CELL) for cell in row.split("|"))
        prose = ["" if row.startswith(("|", "#", "<")) else row for row in rows]
        yield line, "\n".join(prose), LONGEST_SENTENCE


def python(text: str) -> Prose:
    """Yield the docstrings, messages and comments of a module."""
    nodes = list(ast.walk(ast.parse(text)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in parts:
            continue
        values = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value if isinstance(part, ast.Constant) else "X" for part in values]
        prose = "".join(part for part in texts if isinstance(part, str))
        if len(prose.split()) > 3:
            prose = re.sub(r"(?:\A|\n) *(>>>|\.\.\.)(.*\n)*?.*(?=\n\s*\n|\s*\Z)", "\n\n", prose)
            yield node.lineno, re.sub(r"\n *(\w+: )", r"\n\n\1", prose), LONGEST_SENTENCE
    start, comment, last = 0, "", -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield start, comment, LONGEST_SENTENCE
                start, comment = token.start[0], ""
            comment, last = comment + token.string.lstrip("#: ") + "\n", token.start[0]
    yield start, comment, LONGEST_SENTENCE


def findings(path: Path) -> Iterator[str]:
    """Yield `file:line: advice: sentence` for each finding in a file."""
    text = path.read_text()
    lines = text.split("\n")
    for line, prose, limit in (markdown if path.suffix == ".md" else python)(text):
        for part in BOUNDARY.split(re.sub(r"``?[^`]+``?", "X", prose)):
            sentence = " ".join(part.split())
            advice = [
                f"{m[0].strip()!r}: {advice}" for p, advice in COMPILED if (m := p.search(sentence))
            ]
            if (words := len(sentence.split())) > limit:
                advice.append(f"{words} words, at most {limit}")
            if advice and "language: " not in lines[line - 1]:
                row = line + prose[: max(prose.find(part), 0)].count("\n")
                yield f"{path.relative_to(ROOT)}:{row}: {'; '.join(advice)}: {sentence}"


if __name__ == "__main__":
    named = [Path(name).resolve() for name in sys.argv[1:]]
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    modules = [path for source in SOURCES for path in sorted((ROOT / source).rglob("*.py"))]
    report = [finding for path in named or pages + modules for finding in findings(path)]
    sys.exit("\n".join(report) or None)
