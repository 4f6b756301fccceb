"""Programs with symbolic sizes inside programs that JAX exports."""

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

import jax.core
from jax.extend.core import Primitive
from jax.interpreters import mlir

from minixla.engine.jax_private import func, ir

_PROGRAM = Primitive("minixla_symbolic_program")
_PROGRAM.multiple_results = True
# A function definition, or a call.
_NAME = re.compile(r"((?:func\.func (?:public|private)|func\.call|decomposition =) @)")


@_PROGRAM.def_abstract_eval
def _results(*_: Any, text: str, results: Sequence[tuple[Any, Any]]) -> list[Any]:
    del text
    return [jax.core.ShapedArray(sizes, dtype) for sizes, dtype in results]


def _lowered(ctx: Any, *operands: Any, text: str, results: Any) -> Any:
    """Add the functions of the text to JAX's module, and call the first one."""
    del results
    module = ctx.module_context
    prefixes = (f"minixla_symbolic_{index}_" for index in count())
    prefix = next(each for each in prefixes if f"{each}main" not in module.symbol_table)
    parsed = ir.Module.parse(_NAME.sub(rf"\1{prefix}", text), context=module.context)
    functions = list(parsed.body.operations)
    for function in functions:
        module.module.body.append(function)
        module.symbol_table.insert(function.operation)
    main: Any = functions[0]
    main.attributes["sym_visibility"] = ir.StringAttr.get("private")
    symbol = ir.FlatSymbolRefAttr.get(ir.StringAttr(main.attributes["sym_name"]).value)
    return func.CallOp(main.type.results, symbol, list(operands)).results


mlir.register_lowering(_PROGRAM, _lowered, cacheable=False)


def bind_symbolic(
    text: str, results: Sequence[tuple[tuple[Any, ...], Any]], operands: Sequence[Any]
) -> list[Any]:
    """Return the results of a StableHLO module with dynamic sizes, under JAX's current trace.

    Args:
        text: the module; its first function is the program.
        results: the sizes, which may be symbolic, and the dtype of each result.
        operands: JAX tracers.
    """
    return _PROGRAM.bind(*operands, text=text, results=tuple(results))
