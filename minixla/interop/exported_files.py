"""What the files of jax.export need."""

from __future__ import annotations

from importlib.util import find_spec

from minixla.core.errors import MinixlaError, explain


def require_flatbuffers(kind: type[MinixlaError], subject: str) -> None:
    """Raises an error of class `kind` where the package that jax.export's files need is missing."""
    if find_spec("flatbuffers") is None:
        raise explain(
            kind,
            subject,
            "files of jax.export need the package flatbuffers, which is not installed",
            advice="Run: pip install 'minixla[export]'.",
        )
