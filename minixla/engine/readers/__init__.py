"""MLIR's and XLA's readers in a separate process, because damaged programs may end it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minixla.engine.forks import SLOW
from minixla.engine.subprocesses import Helper, HelperDied

# The process limits its own CPU time; this limit is for a process that sleeps.
_SECONDS = 300.0
_HELPER = Helper(str(Path(__file__).with_name("process.py")))


class Sent(NamedTuple):
    """A program that MLIR's readers have read successfully."""

    module: bytes  # MLIR's bytecode or text, large constants as resources.
    constants: dict[str, np.ndarray]  # The bytes of each resource by its name.
    text: str  # The text of a binary program, MLIR or HLO.
    tables: dict[str, Any]  # Tables of an HLO program: see `hlo_protos.translated`


@dataclass(eq=False)
class Refusal(Exception):
    """Error for a text or bytes that are not a program."""

    problem: str  # MLIR's message, or the reason for the death.
    place: str = ""  # the location as MLIR prints it.
    died: bool = False
    said: str = ""  # the output of the reader before it died.
    tables: Any = None  # the tables of an HLO program, if they were read

    @property
    def is_slow(self) -> bool:
        """True if the reader took too long."""
        return self.problem == SLOW


def sent(source: str | bytes, stand_ins: Mapping[str, str] | None = None) -> Sent:
    """Read a program with MLIR in the other process; raise Refusal if it is not one.

    Bytes are bytecode, a portable artifact, or a result of jax.export's `serialize`. With
    `stand_ins` the source is HLO text or a serialized HLO module: see `hlo_protos.translated`.
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
        name: the main function. Functions that it does not call are removed.
        types: the types of its arguments, without symbolic sizes.

    Raises:
        Refusal: the sizes violate a constraint of the program, or do not determine all others.
    """
    return _asked(module, False, None, (name, list(types))).module


def _asked(data: bytes, *request: Any) -> Sent:
    try:
        reply, blocks = _HELPER.ask(request, _SECONDS, data)
    except HelperDied as death:
        raise Refusal(SLOW if death.is_slow else "its process has ended", died=True) from None
    if "problem" in reply:
        raise Refusal(**reply)
    module, *constants = blocks
    named = {f"minixla{number}": data for number, data in enumerate(constants)}
    return Sent(module.tobytes(), named, **reply)
