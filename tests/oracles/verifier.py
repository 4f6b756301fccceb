"""MLIR's parser and verifier, on StableHLO text."""

from minixla.tools.worker import Worker

_worker = Worker("MLIR", "tests.oracles._verify")


def verify(text: str, *, timeout: float = 60.0) -> None:
    """Parses and verifies a module.

    Raises:
        OracleError: the module does not parse or verify.
        OracleCrash: the parser or a verifier aborted or hung.
    """
    _worker.evaluate(text, [], timeout)
