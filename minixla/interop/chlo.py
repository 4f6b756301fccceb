"""Operations of the chlo dialect: our operations, or else MLIR's decompositions."""

from collections.abc import Sequence
from functools import lru_cache, partial

from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import AnyShape, Shape
from minixla.interop.operations import TABLE, Translation, declared
from minixla.interop.reading import read_module
from minixla.interop.step import Step
from minixla_ops.elementwise import complex_functions
from minixla_ops.elementwise.special_functions import SPECIAL

_OURS = {"chlo.erf": "Erf", "chlo.cosh": "Cosh", "chlo.tan": "Tan"}


@lru_cache(maxsize=1024)
def decomposition(
    name: str, operands: tuple[AnyShape, ...], results: tuple[AnyShape, ...], attributes: str
) -> Graph:
    """Return MLIR's decomposition of an operation (`chlo.sinh`) for operands and results of shapes.

    `attributes` is MLIR's text, without braces.
    """
    parameters = ", ".join([f"%{i}: {shape.stablehlo}" for i, shape in enumerate(operands)])
    names = ", ".join([f"%{i}" for i in range(len(operands))])
    types = ", ".join([shape.stablehlo for shape in operands])
    outcome = ", ".join([shape.stablehlo for shape in results])
    properties = f" <{{{attributes}}}>" if attributes else ""
    back = ", ".join([f"%r#{index}" for index in range(len(results))])
    text = (
        f"func.func @main({parameters}) -> ({outcome}) {{\n"
        f'%r:{len(results)} = "{name}"({names}){properties} : ({types}) -> ({outcome})\n'
        f"return {back} : {outcome}\n}}"
    )
    from minixla.interop.module import Module  # it imports the table of this file

    module = read_module(text, "chlo-legalize-to-stablehlo")
    return Module(module).translated()["main"]


def _decomposed(step: Step, name: str) -> Sequence[Value]:
    """Add MLIR's decomposition of an operation, or of the custom call in its place."""
    labels = step.operation.attributes if name == step.name else ()
    attributes = ", ".join([f"{label} = {step.raw(label)}" for label in labels])
    if step.operation.regions:
        step.reject("it runs a program", "Convert the program to StableHLO without chlo first.")
    graph = decomposition(name, tuple(step.shapes), tuple(step.results), attributes)
    return step.builder.inline(graph, step.operands)


def _function(name: str, step: Step) -> Sequence[Value]:
    """Apply our operation to floats; most complex functions are decomposed."""
    (shape, *_) = step.shapes
    is_float = isinstance(shape, Shape) and shape.element_type.is_float
    if is_float or name in ("chlo.cosh", "chlo.tan"):
        return step.builder.apply(SPECIAL.get(name) or REGISTRY[_OURS[name]](), step.operands)
    if name == "chlo.sinh":  # MLIR's difference of exponentials loses all digits near 0
        return step.inlined(complex_functions.sinh)
    return _decomposed(step, name)


def _constant_like(step: Step) -> Sequence[Value]:
    value, shape = step.get("value"), step.result
    if not isinstance(value, (bool, int, float)) or shape.is_dynamic:
        step.reject(
            f"the value is {str(value)[:50]}, the result {shape}",
            "It must be a real number, and the result of static size: use stablehlo.constant.",
        )
    return [step.builder.constant(value, shape)]


#: Translations by chlo's name.
CHLO: dict[str, Translation] = {
    **{name: partial(_function, name) for name in (*SPECIAL, *_OURS)},
    "chlo.constant": TABLE["stablehlo.constant"],
    "chlo.constant_like": _constant_like,
    "chlo.ragged_dot": declared("RaggedDot"),
    "chlo.square": lambda step: [step.bind("Mul", *step.operands * 2)],
    "chlo.top_k": declared("TopK"),
}
_REST = ("bessel_i1e", "conj", "is_inf", "is_neg_inf", "is_pos_inf", "mulhi")
_REST = tuple([f"chlo.{name}" for name in (*_REST, "_asin_acos_kernel")])
CHLO |= {name: partial(_decomposed, name=name) for name in _REST}


def _broadcasting(name: str, step: Step) -> Sequence[Value]:
    """Apply the operation without broadcasting, to operands of the result's sizes."""
    sizes, dimensions = step.result.dimensions, step.get("broadcast_dimensions", ())
    step.operands = [_broadcast(step, value, sizes, dimensions) for value in step.operands]
    return (CHLO.get(f"chlo.{name}") or TABLE[f"stablehlo.{name}"])(step)


def _broadcast(step: Step, value: Value, sizes: Sequence[int], dimensions: Sequence[int]) -> Value:
    """Broadcast a value to other sizes, along its last dimensions or along `dimensions`."""
    shape = value.shape
    if not isinstance(shape, Shape) or shape.dimensions == tuple(sizes):
        return value
    last = range(len(sizes) - shape.rank, len(sizes))
    at = dimensions if len(dimensions) == shape.rank < len(sizes) else last
    return step.bind(
        "BroadcastInDim", value, out_dim_size=tuple(sizes), broadcast_dimensions=tuple(at)
    )


_BROADCASTING = """add and atan2 compare complex divide maximum minimum multiply next_after or
polygamma power remainder select shift_left shift_right_arithmetic shift_right_logical subtract xor
zeta"""
CHLO |= {f"chlo.broadcast_{name}": partial(_broadcasting, name) for name in _BROADCASTING.split()}
