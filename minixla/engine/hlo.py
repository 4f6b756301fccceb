"""HLO text into StableHLO, by XLA's own translation."""

from __future__ import annotations

from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs


def stablehlo_of_hlo(text: str) -> str:
    """The StableHLO text of an HLO module.

    XLA's parser may end the process where the text is wrong: give it text of our own only, or call
    this in a process of its own.

    Raises:
        RuntimeError: the text is no HLO, or has instructions that StableHLO lacks.
    """
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
