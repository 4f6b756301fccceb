"""An evaluator of programs in a process of its own, which a program may kill without harm.

Both sides are here: `Worker` asks the process, `serve` is what the process does. A request is
(module text, arrays); a reply is (None, arrays) or (error message, []).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minixla.core.children import Helper, HelperDied, receive, send, stream_to_parent


class OracleError(NotImplementedError):
    """An oracle refused a program or its arguments: it does not parse, verify, compile or fit."""


class OracleCrash(OracleError):
    """An oracle died of a program, or did not answer in time; the message has the program."""


def serve(evaluate: Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]) -> None:
    """Evaluate what comes over the connection that the command line names, until it is closed."""
    stream = stream_to_parent()
    while True:
        try:
            number, (text, arguments), _ = receive(stream)
        except EOFError:
            return
        try:
            reply = None, evaluate(text, arguments)
        except Exception as error:  # Whatever is wrong with the request, its sender is told.
            reply = f"{type(error).__name__}: {error}", []
        send(stream, number, reply)


class Worker:
    """An evaluator that is started when first asked, and again after it died.

    Args:
        name: what messages call it.
        module: full name of the module that calls `serve` when run.
    """

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        self._helper = Helper("-m", module)
        self.stop = self._helper.stop

    def evaluate(
        self, text: str, arguments: Sequence[np.ndarray], timeout: float
    ) -> list[np.ndarray]:
        """Results of a program; OracleError if it is refused, OracleCrash if no answer comes."""
        request = text, [np.asarray(argument) for argument in arguments]
        try:
            (error, results), _ = self._helper.ask(request, timeout)
        except HelperDied as death:
            raise OracleCrash(f"{self.name} {death}\n{text}") from death
        if error is not None:
            raise OracleError(f"{self.name} refused the module: {error}\n{text}")
        return results
