"""MLIR's and XLA's readers in a process of their own, where they may die of damaged programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minixla.engine.forks import SLOW
from minixla.engine.subprocesses import Helper, HelperDied

# The process limits its own time; this is for one that sleeps.
_SECONDS = 300.0
_HELPER = Helper(str(Path(__file__).with_name("process.py")))


class Sent(NamedTuple):
    """A program that MLIR's readers live through."""

    module: bytes  # MLIR's bytecode or text, in which resources stand for large constants
    constants: dict[str, np.ndarray]  # the bytes of each by the resource's name
    text: str  # the text of a binary program, MLIR's or HLO's
    tables: dict[str, Any]  # what stands beside an HLO program: see `hlo_protos.translated`


@dataclass(eq=False)
class Refusal(Exception):
    """What is no program."""

    problem: str  # what MLIR says, or of what it died
    place: str = ""  # as MLIR names it
    died: bool = False
    said: str = ""  # what it wrote before it died
    tables: Any = None  # what stands beside an HLO program, if it came so far

    @property
    def is_slow(self) -> bool:
        """Whether the reader took too long."""
        return self.problem == SLOW


def sent(source: str | bytes, stand_ins: Mapping[str, str] | None = None) -> Sent:
    """A program after MLIR has read it elsewhere; Refusal where it is none.

    Bytes are bytecode, a portable artifact, or what jax.export serialized. With `stand_ins` the
    source is HLO text or a serialized HLO module: see `hlo_protos.translated`.
    """
    data = source.encode() if isinstance(source, str) else source
    return _asked(data, isinstance(source, str), stand_ins, None)


def start_by_fork() -> None:
    """Start the process of the readers as a fork: see `Helper.start_by_fork`."""
    _HELPER.start_by_fork()


def specialized(module: bytes, name: str, types: Sequence[str]) -> bytes:
    """Return a program with symbolic sizes, specialized to the sizes of its arguments, as bytecode.

    Args:
        module: MLIR's bytecode.
        name: the main function. Functions that it does not call are left out.
        types: the types of its arguments, without symbolic sizes.

    Raises:
        Refusal: the sizes violate a constraint of the program, or do not determine all others.
    """
    return _asked(module, False, None, (name, list(types))).module


def _asked(data: bytes, *request: Any) -> Sent:
    try:
        reply, blocks = _HELPER.ask(request, _SECONDS, data)
    except HelperDied as death:
        raise Refusal(SLOW if death.is_slow else "its process is gone", died=True) from None
    if "problem" in reply:
        raise Refusal(**reply)
    module, *constants = blocks
    named = {f"minixla{number}": data for number, data in enumerate(constants)}
    return Sent(module.tobytes(), named, **reply)
