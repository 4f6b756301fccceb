"""The process behind `sharding_rules.py`: asks Shardy's registry."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir, passmanager

from minixla.tools.worker import next_context, serve

_PASSES = "builtin.module(func.func(sdy-populate-op-sharding-rules))"


def evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each operation of the functions' bodies its name and rule, as bytes of one text."""
    with next_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(_PASSES).run(module.operation)
        lines = [f"{operation.name} {_rule(operation)}" for operation in _operations(module)]
    return [np.frombuffer(line.encode(), np.uint8) for line in lines]


def _operations(module: ir.Module) -> Iterator[Any]:
    function: Any
    for function in module.body.operations:
        for region in function.regions:
            for block in region.blocks:
                yield from [each.operation for each in block.operations]


def _rule(operation: Any) -> str:
    attributes = operation.attributes
    return str(attributes["sdy.sharding_rule"]) if "sdy.sharding_rule" in attributes else ""


if __name__ == "__main__":
    serve(evaluate)
