"""Check the language of docs, docstrings, comments and messages: `python -m tests.language [FILE ...]`.

Report phrases that do not belong in plain technical English, and sentences that are too long.
A comment `language: REASON` on the line of a sentence silences it.
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

PHRASES = [
    (r"^What (?![^?]*\?)", "relative clause without a head: name the thing"),
    (r"^(Of|Whether|Which) (?!course)(?![^?]*\?)", "topic before the subject: begin with the subject"),
    (r"\bof (which|those|such|whose)\b", "split the sentence, or name the thing"),
    (r"\b(is|are|was|were|be) no (?!longer\b|more\b|less\b|fewer\b|other\b)", "write `is not a`, `there is no`"),
    (r"\b(has|have|had|with|holds?|is|are) none\b(?! of)", "write `has no X`"),
    (r"\bof (?:[A-Z]\w+|StableHLO|ours|theirs|one|its)'s(?=[ ,.;:)]?(?:$|[^\w ]| (?:is|are|that|and|or|in|for|to|of)\b))", "write `NumPy's X`"),
    (r"\b(code|rules?|words?|classes?|operations?|functions?|names?) of (our|their|its|one's) own\b", "write `its own X`"),
    (r"\bone's own\b", "write `your own` or `custom`"),
    (r"\b(is|are|was) not (here|there)\b", "write `is missing`, `is not installed`, `does not exist`"),
    (r"\b(whoever|nobody|so many|ever|in silence|the house)\b", "write it plainly"),
    (r"\b(?<!stand-)(?<!leave )(?<!left )alone\b", "write `only`"),
    (r"\bbut (for|by|of) (the|its|their|a|an|those)\b", "write `except`"),
    (r"\b(what|whatever) (is|are|was|were|it|they) (given|found|made|kept|shown|left|read|known)\b", "name the thing"),
    (r"\bmend(s|ed|ing)?\b", "write `fix`"),
    (r"\bto the last bit\b", "write `bit-exact`"),
    (r"\bprograms? from outside\b", "write `imported program`"),
]  # fmt: skip
COMPILED = [(re.compile(pattern), advice) for pattern, advice in PHRASES]
SENTENCE = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*_]*[A-Z0-9`<])|\n\s*\n|\n\s*[-*] |\n\s*\d+\. |;\s|:\s"
)


def markdown(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield line, text and limit in words of each paragraph, heading and cell of a page."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in re.finditer(r"(?:^(?!\s*$).*\n?)+", text, re.M):
        line = text.count("\n", 0, block.start()) + 1
        for offset, row in enumerate(block[0].split("\n")):
            if row.startswith("|"):
                yield from ((line + offset, cell.strip(), LONGEST_CELL) for cell in row.split("|"))
        prose = "\n".join("" if r.startswith(("|", "#", "<")) else r for r in block[0].split("\n"))
        yield line, prose, LONGEST_SENTENCE


def python(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield line, text and limit in words of each docstring, message and comment of a module."""
    tree = ast.parse(text)
    inner = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [p.value if isinstance(p, ast.Constant) else "X" for p in parts]
        prose = "".join(t for t in texts if isinstance(t, str))
        if isinstance(node, ast.Constant | ast.JoinedStr) and len(prose.split()) > 3:
            prose = re.sub(r"\n *(>>>|\.\.\.)(.*\n)+?(?=\s*\n|$)", "\n\n", prose)
            prose = re.sub(r"\n *(\w+: )", r"\n\n\1", prose)  # one argument a paragraph
            yield node.lineno, prose, LONGEST_SENTENCE
    start, comment, end = 0, "", -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != end + 1:
                yield start, comment, LONGEST_SENTENCE
                start, comment = token.start[0], ""
            comment, end = comment + token.string.lstrip("#: ") + "\n", token.start[0]
    yield start, comment, LONGEST_SENTENCE


def findings(path: Path) -> Iterator[str]:
    """Yield `file:line: advice: text` for each finding in a file."""
    text = path.read_text()
    lines = text.split("\n")
    for start, prose, limit in (markdown if path.suffix == ".md" else python)(text):
        prose = re.sub(r"``?[^`]+``?", "X", prose)
        for sentence in SENTENCE.split(prose):
            words = sentence.split()
            line = start + prose[: max(prose.find(sentence), 0)].count("\n")
            joined = " ".join(words)
            where = f"{path.relative_to(ROOT)}:{line}"
            if "language: " in lines[min(line, len(lines)) - 1]:
                continue
            if len(words) > limit:
                yield f"{where}: {len(words)} words, at most {limit}: {joined}"
            for pattern, advice in COMPILED:
                if match := pattern.search(joined):
                    yield f"{where}: {match[0].strip()!r}: {advice}: {joined[:160]}"


def main(names: list[str]) -> int:
    """Print all findings in the files, or in the whole repository; return their number."""
    paths = [Path(name).resolve() for name in names] or [
        *(path for pattern in PAGES for path in sorted(ROOT.glob(pattern))),
        *(path for source in SOURCES for path in sorted((ROOT / source).rglob("*.py"))),
    ]
    found = [finding for path in paths for finding in findings(path)]
    print("\n".join(found))
    return len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
