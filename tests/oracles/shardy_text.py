"""Programs with shardings as texts: how tests write them, and a form in which two are compared."""

import re
from typing import Any

from jax.extend.mlir import ir
from jax.interpreters.mlir import make_ir_context

from minixla.engine.shardy import shardy_pass

MESH = 'sdy.mesh @mesh = <["p"=2, "q"=4]>\n'
_TYPE = re.compile(r"\bt([\d?](?:x?[\d?])*)(?!\w)")
_SHARDING = r"\[(?:\{[^{}]*\}(?:p\d+)?(?:, ?)?)*\](?:, (?:replicated|unreduced)=\{[^{}]*\})*"
_OF_ARGUMENT = re.compile(rf" at ({_SHARDING})")
_OF_RESULTS = re.compile(rf" on ({_SHARDING}(?:; {_SHARDING})*)")
_BARE = re.compile(rf"(?<!mesh)(?<!= )<({_SHARDING})>")
_AXES = re.compile(r"\{([^{}]*)\}")
_AXIS, _IN_QUOTES = re.compile(r"[a-z_]\w*"), r'"\g<0>"'


def written(text: str, mesh: str = MESH) -> str:
    """A module's text, of one in shorthand.

    `t8x4` is a tensor of f32, ` at [{p}, {?}]` the sharding of an argument or a function's result
    over @mesh, ` on [{p}, {?}]` that of an operation's results (`;` between them), `<[{p}, {?}]>`
    one within an operation. A text that begins with `(` is of @main; `mesh` stands before it if it
    names @mesh and has none.
    """
    text = text.strip()
    if text.startswith("("):
        text = f"func.func @main{text}"
    text = _OF_ARGUMENT.sub(
        lambda found: f" {{sdy.sharding = #sdy.sharding{_over(found[1])}}}", text
    )
    text = _OF_RESULTS.sub(_per_value, text)
    text = _BARE.sub(lambda found: _over(found[1]), text)
    text = _TYPE.sub(r"tensor<\1xf32>", text) + "\n"
    return mesh + text if "<@mesh," in text and "sdy.mesh" not in text else text


def _over(sharding: str) -> str:
    return f"<@mesh, {_AXES.sub(_quoted, sharding)}>"


def _quoted(axes: re.Match[str]) -> str:
    return f"{{{_AXIS.sub(_IN_QUOTES, axes[1])}}}"


def _per_value(found: re.Match[str]) -> str:
    each = ", ".join(_over(sharding) for sharding in found[1].split("; "))
    return f" {{sdy.sharding = #sdy.sharding_per_value<[{each}]>}}"


_CONTEXT = make_ir_context()


def normal_form(text: str) -> str:
    """A module as MLIR prints it, without what passes leave that says nothing.

    That are the form of meshes that StableHLO reads, the sharding rules of constraints, a module's
    name, what says that a function is public, and that numbers are compared as numbers.
    Meshes come first. Sharding groups 0 to N - 1 are numbered as they first appear.

    Raises:
        ImportError_: it is no module.
    """
    sound = shardy_pass(text, "")
    with _CONTEXT:
        module = ir.Module.parse(sound)
        numbers: dict[int, list[Any]] = {}

        def visit(operation: Any) -> Any:
            key, value = _UNSAID.get(operation.name, ("", None))
            if key in operation.attributes and value in (None, str(operation.attributes[key])):
                del operation.attributes[key]
            if operation.name == "sdy.sharding_group":
                number = ir.IntegerAttr(operation.attributes["group_id"]).value
                numbers.setdefault(number, []).append(operation)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        others = [each for each in module.body.operations if each.operation.name != "sdy.mesh"]
        for each in others:
            each.operation.move_after(module.body.operations[len(module.body.operations) - 1])
        if sorted(numbers) == list(range(len(numbers))):
            signed = ir.IntegerType.get_signless(64)
            for number, operations in enumerate(numbers.values()):
                for operation in operations:
                    operation.attributes["group_id"] = ir.IntegerAttr.get(signed, number)
        return str(module)


#: By operation an attribute that says nothing, or that does not with one value.
_UNSAID = {
    "builtin.module": ("sym_name", None),
    "func.func": ("sym_visibility", '"public"'),
    "sdy.mesh": ("stablehlo.mesh", None),
    "sdy.sharding_constraint": ("sdy.sharding_rule", None),
    "stablehlo.compare": ("compare_type", None),
}
