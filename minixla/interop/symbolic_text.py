"""StableHLO text with symbolic sizes, from the texts of a program at several static sizes.

Numbers that differ between the texts become polynomials of the symbols. The polynomials must
reproduce each text exactly, also at sizes that did not determine them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from minixla.core.errors import TransformError, explain

#: The values of symbols, by name.
Sizes = Mapping[str, int]
_DIGITS = re.compile(r"(\d+)")
_LOCATION = re.compile(r" loc\(#loc\d+\)$")
#: Replaces, in a text, the number that a polynomial gives.
_MARK = re.compile(r"⟨(\d+)⟩")
_ADVICE = (
    "Export one program for each size, or write the function with jax.numpy, which JAX traces with "
    "symbolic sizes."
)


class Polynomial(NamedTuple):
    """A sum of products of at most two symbols, each with an integer coefficient."""

    terms: tuple[tuple[tuple[str, ...], int], ...]

    def at(self, symbols: Mapping[str, Any]) -> Any:
        """Return the value for values of the symbols, which may be symbolic."""
        total: Any = 0
        for names, coefficient in self.terms:
            product: Any = coefficient
            for name in names:
                product = product * symbols[name]
            total = product + total
        return total


class MarkedText(NamedTuple):
    """StableHLO text in which marks replace the numbers that depend on sizes."""

    text: str
    polynomials: list[Polynomial]

    def at(self, sizes: Sizes) -> str:
        """Return the text for values of the symbols."""
        return _MARK.sub(lambda mark: str(self.polynomials[int(mark[1])].at(sizes)), self.text)


def symbolic_text(
    name: str, text_at: Callable[[Sizes], str], fitted: Sequence[Sizes], checked: Sequence[Sizes]
) -> MarkedText:
    """Return the text of a program for all values of symbols.

    Args:
        name: the program's name in errors.
        text_at: returns the text for values of the symbols.
        fitted: values that determine the polynomials.
        checked: values at which the result is compared with the text.

    Raises:
        TransformError: the programs differ in more than numbers that are polynomials of the
            symbols.
    """
    texts = [text_at(sizes) for sizes in fitted]
    # The places of instructions differ where one of the programs was traced before.
    parts = [_DIGITS.split(_without_locations(text)) for text in texts]
    _check_same(name, fitted, texts, [part[::2] for part in parts])
    columns = list(zip(*[part[1::2] for part in parts], strict=True))
    polynomials: dict[Polynomial, int] = {}
    pieces = list(parts[0])
    for index, column in enumerate(columns):
        if len(set(column)) == 1:
            continue
        polynomial = _fitted(fitted, [int(number) for number in column])
        if polynomial is None:
            line = _lines(texts[0])["".join(parts[0][: 2 * index + 1]).count("\n")]
            raise _refused(name, fitted[0], texts[0], line)
        number = polynomials.setdefault(polynomial, len(polynomials))
        pieces[2 * index + 1] = f"⟨{number}⟩"
    marked = MarkedText("".join(pieces), list(polynomials))
    for sizes in [*fitted, *checked]:
        text = text_at(sizes)
        if _without_locations(text) != marked.at(sizes):
            raise _refused(name, sizes, text, _first_difference(text, marked.at(sizes)))
    return marked._replace(text=_with_locations(marked.text, texts[0]))


def _lines(text: str) -> list[str]:
    """Return the lines of a text that are not names of locations."""
    return [line for line in text.splitlines() if not line.startswith("#loc")]


def _without_locations(text: str) -> str:
    return "\n".join([_LOCATION.sub("", line) for line in _lines(text)])


def _with_locations(text: str, other: str) -> str:
    """Return a text with the locations of another one of the same lines."""
    names = [line for line in other.splitlines() if line.startswith("#loc")]
    places = [_LOCATION.search(line) for line in _lines(other)]
    pairs = zip(text.splitlines(), places, strict=True)
    return (
        "\n".join([*names, *[line + (place[0] if place else "") for line, place in pairs]]) + "\n"
    )


def _check_same(
    name: str, sizes: Sequence[Sizes], texts: Sequence[str], words: Sequence[Sequence[str]]
) -> None:
    """Raise an error if texts differ in more than numbers."""
    for other, text in zip(words, texts, strict=True):
        if other != words[0]:
            line = _first_difference(texts[0], text, is_quiet=True)
            raise _refused(name, sizes[0], texts[0], line)


def _first_difference(text: str, other: str, is_quiet: bool = False) -> str:
    """Return the first line of a text that differs in another; `is_quiet` ignores numbers."""

    def compared(line: str) -> str:
        line = re.sub(r" loc\(.*", "", line)
        return _DIGITS.sub("", line) if is_quiet else line

    lines = _lines(text)
    pairs = zip(lines, _lines(other), strict=False)
    return next((here for here, there in pairs if compared(here) != compared(there)), lines[-1])


def _refused(name: str, sizes: Sizes, text: str, line: str) -> TransformError:
    """Return the error for a line that depends on sizes other than as a polynomial."""
    at = ", ".join(f"{symbol} = {value}" for symbol, value in sizes.items())
    problem = f"the program depends on the symbolic sizes: {operation_in(line)} differs"
    return unsupported(name, problem, line, text, f"with {at}: ")


def unsupported(name: str, problem: str, line: str, text: str, before: str = "") -> TransformError:
    """Return the error for an instruction that symbolic sizes reject, with the user's line."""
    shown = re.sub(r" loc\(.*", "", line).strip()
    details = [f"{before}{shown[:200]}"] if shown else []
    location = re.search(r"loc\((#loc\d+)\)\s*$", line)
    if location is not None:
        place = re.search(rf'^{location[1]} = loc\("(.*)":(\d+):\d+\)', text, re.MULTILINE)
        details += [f"traced from {place[1]}:{place[2]}"] if place is not None else []
    return explain(TransformError, name, problem, details, _ADVICE)


def operation_in(line: str) -> str:
    """Return the name of a line's operation."""
    found = re.search(r"\b(?:stablehlo|chlo|func|sdy)\.\w+", line)
    return found[0] if found is not None else "the program"


def _monomials(symbols: Sequence[str]) -> list[tuple[str, ...]]:
    pairs = list(combinations_with_replacement(symbols, 2))
    return [(), *[(symbol,) for symbol in symbols], *pairs]


def count_of_samples(symbols: Sequence[str]) -> int:
    """Return how many values determine a polynomial of these symbols."""
    return len(_monomials(symbols))


def _fitted(samples: Sequence[Sizes], numbers: Sequence[int]) -> Polynomial | None:
    """Return the polynomial that gives these numbers; None if a coefficient is not an integer."""
    monomials = _monomials(list(samples[0]))
    rows = [[_product(sizes, names) for names in monomials] for sizes in samples]
    solution, *_ = np.linalg.lstsq(np.array(rows, float), np.array(numbers, float), rcond=None)
    coefficients = [Fraction(float(x)).limit_denominator(64) for x in solution]
    if any(x.denominator != 1 for x in coefficients):
        return None
    pairs = [(names, int(x)) for names, x in zip(monomials, coefficients, strict=True) if x]
    polynomial = Polynomial(tuple(pairs))
    is_exact = all(polynomial.at(s) == n for s, n in zip(samples, numbers, strict=True))
    return polynomial if is_exact else None


def fitted_size(
    samples: Sequence[Sizes], numbers: Sequence[int], symbols: Mapping[str, Any]
) -> Any:
    """Return a size of a result as an expression of symbols, from its values at samples."""
    polynomial = _fitted(samples, numbers)
    assert polynomial is not None, "the text has the same sizes"
    return polynomial.at(symbols)


def _product(sizes: Sizes, names: Sequence[str]) -> int:
    product = 1
    for name in names:
        product *= sizes[name]
    return product
