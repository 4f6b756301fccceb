"""Replace the symbolic sizes of a program with the sizes of its arguments.

XLA's shape refinement replaces them. Like XLA's readers, it may end the process, so only the
process that reads programs runs this, as a module without packages around it.
"""

import io
from collections.abc import Sequence
from typing import Any

from jax.errors import JaxRuntimeError
from jax.extend.mlir import ir, refine_polymorphic_shapes
from jax.extend.mlir.passmanager import PassManager

# XLA refines the function of this name.
_MAIN = "main"
_OTHER = "minixla_other_main"


def refined(source: bytes, name: str, types: Sequence[str]) -> bytes:
    """Return the bytecode of a program whose sizes are all static.

    The current MLIR context reads the program.

    Args:
        source: the bytecode of a program with symbolic sizes.
        name: its main function; functions that it does not call are left out.
        types: the types of the arguments, without symbolic sizes.
    """
    with ir.Location.unknown():
        module = _with_types(source, name, types)
        try:
            module = _refine(module)
        except JaxRuntimeError:
            # XLA infers all sizes before it checks assertions, which have better messages.
            module = _with_types(source, name, types)
            _keep_assertions(_functions(module)[_MAIN])
            _refine(module)
            raise
        function = _functions(module)[_MAIN]
        _drop_conversions(function)
        _drop_unused_constants(function)
        function.attributes["sym_name"] = ir.StringAttr.get(name)
    return _bytecode(module)


def _with_types(source: bytes, name: str, types: Sequence[str]) -> Any:
    """Return the module of bytecode with the types of its main function's arguments."""
    module = ir.Module.parse(source)
    functions = _functions(module)
    _set_types(functions[name], [ir.Type.parse(type_) for type_ in types])
    _rename_main(module, functions, name)
    PassManager.parse("builtin.module(symbol-dce)").run(module.operation)
    return module


def _refine(module: Any) -> Any:
    written = _bytecode(module)
    options = {"enable_shape_assertions": True, "validate_static_shapes": True}
    is_sharded = b"sdy" in written
    return ir.Module.parse(refine_polymorphic_shapes(written, enable_shardy=is_sharded, **options))


def _bytecode(module: Any) -> bytes:
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _functions(module: Any) -> dict[str, Any]:
    operations = [view.operation for view in module.body.operations]
    return {
        ir.StringAttr(operation.attributes["sym_name"]).value: operation
        for operation in operations
        if operation.name == "func.func"
    }


def _set_types(function: Any, types: Sequence[Any]) -> None:
    """Change the types of a function's arguments; its body reads them in their former types."""
    block = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        for argument, type_ in zip(block.arguments, types, strict=True):
            if argument.type != type_:
                conversion = ir.Operation.create(
                    "stablehlo.convert", results=[argument.type], operands=[argument]
                )
                argument.replace_all_uses_except(conversion.result, conversion)
                argument.set_type(type_)
    before = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    after = ir.FunctionType.get(list(types), before.results)
    function.attributes["function_type"] = ir.TypeAttr.get(after)


def _keep_assertions(function: Any) -> None:
    """Remove everything from a function but its shape assertions and the values that they read."""
    block = function.regions[0].blocks[0]
    operations = [view.operation for view in block.operations]
    with ir.InsertionPoint(operations[-1]):
        ir.Operation.create("func.return")
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    without_results = ir.FunctionType.get(type_.inputs, [])
    function.attributes["function_type"] = ir.TypeAttr.get(without_results)
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    for operation in reversed(operations):
        target = operation.attributes.get("call_target_name", None)
        is_assertion = target is not None and ir.StringAttr(target).value == "shape_assertion"
        if not is_assertion and not any(list(result.uses) for result in operation.results):
            operation.erase()


def _rename_main(module: Any, functions: dict[str, Any], name: str) -> None:
    """Name a function `main`, and make all others private, so that unused ones can be removed."""
    for other, function in functions.items():
        visibility = "public" if other == name else "private"
        function.attributes["sym_visibility"] = ir.StringAttr.get(visibility)
    if name == _MAIN:
        return
    if _MAIN in functions:
        functions[_MAIN].attributes["sym_name"] = ir.StringAttr.get(_OTHER)
        main, other = ir.FlatSymbolRefAttr.get(_MAIN), ir.FlatSymbolRefAttr.get(_OTHER)

        def visit(operation: Any) -> Any:
            if operation.name == "func.call" and operation.attributes["callee"] == main:
                operation.attributes["callee"] = other
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    functions[name].attributes["sym_name"] = ir.StringAttr.get(_MAIN)


def _drop_conversions(function: Any) -> None:
    """Remove what is left of `_set_types`: conversions of arguments to their own type."""
    for argument in function.regions[0].blocks[0].arguments:
        for use in list(argument.uses):
            operation = use.owner.operation
            is_conversion = operation.name == "stablehlo.convert"
            if is_conversion and operation.results[0].type == argument.type:
                operation.results[0].replace_all_uses_with(argument)
                operation.erase()


def _drop_unused_constants(function: Any) -> None:
    """Remove constants that only sizes and assertions read."""
    for view in list(function.regions[0].blocks[0].operations):
        operation = view.operation
        if operation.name == "stablehlo.constant" and not list(operation.results[0].uses):
            operation.erase()
