"""import_stablehlo: forms of programs, what is kept, what is refused, what can be done with it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.core.attributes import Literal
from tests.minixla.interop.import_programs import MLP, PROGRAMS, as_artifact, as_bytecode, main

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def loss(w, x):
    return jnp.sum(jnp.tanh(x @ w))


def check_program(program):
    w = X.T.copy()
    for run in (program, mx.jit(program), mx.reference(program)):
        np.testing.assert_allclose(run(w, X), loss(w, X), rtol=1e-5)
    np.testing.assert_allclose(
        mx.jit(mx.grad(program))(w, X), jax.grad(loss)(w, X), rtol=1e-4, atol=1e-6
    )
    batch = np.stack([w, 2 * w])
    np.testing.assert_allclose(
        mx.vmap(program, (0, None))(batch, X), jax.vmap(loss, (0, None))(batch, X), rtol=1e-5
    )


def test_text(tmp_path):
    program = mx.import_stablehlo(MLP)
    check_program(program)
    assert list(program.functions) == ["act", "main"]
    assert [step.op.name for step in program.graph.instructions][1] == "Call"
    np.testing.assert_allclose(program.functions["act"](X[:, :2]), np.tanh(X[:, :2]), rtol=1e-6)
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    assert mx.import_stablehlo(path).graph == program.graph
    assert mx.import_stablehlo(MLP, function="act").graph.output_shapes[0].dimensions == (2, 2)


@pytest.mark.parametrize("form", [as_bytecode, as_artifact, str.encode])
def test_other_forms(form):
    program = mx.import_stablehlo(form(MLP))
    assert program.graph == mx.import_stablehlo(MLP).graph
    check_program(program)


def test_exported_by_jax():
    def nested(parameters, x):
        return {"loss": loss(parameters["w"], x), "unused": parameters["b"]}

    given = {"w": X.T.copy(), "b": np.float32(3), "c": np.ones(2, np.float32)}
    exported = jax.export.export(jax.jit(nested))(given, X)
    program = mx.import_stablehlo(exported)
    wanted = nested(given, X)
    for run in (program, mx.reference(program)):
        found = run(given, X)
        np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=1e-5)
        assert found["unused"] == 3
    gradient = mx.grad(lambda p: program(p, X)["loss"])(given)
    np.testing.assert_allclose(
        gradient["w"], jax.grad(lambda p: nested(p, X)["loss"])(given)["w"], rtol=1e-4, atol=1e-6
    )
    with pytest.raises(mx.TransformError, match="another structure than the exported"):
        program(given)


def test_source_lines():
    text = main('%r = stablehlo.tanh %x : tensor<2x3xf32> loc("model.py":12:3)')
    (step,) = mx.import_stablehlo(text).graph.instructions
    assert step.source is not None
    assert str(step.source) == "model.py:12 (program)"
    (step,) = mx.import_stablehlo(
        main("%r = stablehlo.tanh %x : tensor<2x3xf32>")
    ).graph.instructions
    assert str(step.source) == "<stablehlo>:2 (program)"


CONSTANTS = {
    "i1": "[true, false, true]",
    "i4": "[-8, 0, 7]",
    "ui2": "[3, 0, 1]",
    "i64": "[-9223372036854775808, 0, 9223372036854775807]",
    "ui64": "[18446744073709551615, 0, 1]",
    "f32": "[0x7FC00001, 1.5e-45, -0.0]",
    "f64": "[0.1, 0x7FF0000000000000, 1.0e-320]",
    "f16": "[0x7C00, 1.0, -2.5]",
    "bf16": "[1.0, 0x7FC0, 3.140625]",
    "f8E4M3FN": "[1.0, 0x7F, -448.0]",
    "f4E2M1FN": "[6.0, -0.5, 0.0]",
    "complex<f32>": "[(1.0, -2.5), (0x7F800000, 0.0), (1.0e-3, 3.0)]",
    "complex<f64>": "[(0.1, 0.2), (0.3, 0.4), (0.5, 0.6)]",
}


@pytest.mark.parametrize("element", CONSTANTS)
@pytest.mark.parametrize("form", ["listed", "splat", "empty", "hexadecimal"])
def test_constants(element, form):
    listed = CONSTANTS[element]
    if form == "splat":
        size, value = 3, listed.strip("[]").split("), ")[0]
        value = f"{value})" if "complex" in element else value.split(",")[0]
    elif form == "empty":
        size, value = 0, ""
    else:
        size, value = 3, listed
    type_ = f"tensor<{size}x{element}>"
    text = main(f"%r = stablehlo.constant dense<{value}> : {type_}", "", type_)
    literal = mx.import_stablehlo(text).graph.instructions[0].attributes["literal"]
    if form == "hexadecimal":
        tiled = np.tile(literal.array, 50)
        graph = mx.make_graph(
            lambda: mx.ops.constant(Literal(tiled, literal.shape.with_dimensions(tiled.shape)))
        )()
        text = graph.stablehlo()
        assert '"0x' in text or element == "i1"
        assert mx.import_stablehlo(text).graph == graph
        return
    assert literal.is_splat == (form == "splat")
    # MLIR writes what it read, bit by bit.
    again = mx.import_stablehlo(
        main(f"%r = stablehlo.constant {type_ and ''}" + _shown(literal), "", type_)
    )
    assert again.graph.instructions[0].attributes["literal"] == literal
    bits = {"f32": (0x7FC00001, 1, 0x80000000), "bf16": (0x3F80, 0x7FC0, 0x4049)}
    if element in bits and form == "listed":
        raw = literal.array.view({"f32": np.uint32, "bf16": np.uint16}[element])
        assert tuple(raw.tolist()) == bits[element]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    body, wanted = PROGRAMS[name]
    program = mx.import_stablehlo(main(body))
    for run in (mx.reference(program), mx.jit(program)):
        np.testing.assert_allclose(run(X), wanted(X), rtol=1e-5, atol=1e-6)
    assert mx.import_stablehlo(program.graph.stablehlo()).graph.input_shapes


def test_a_loop_with_captured_values_has_derivatives():
    program = mx.import_stablehlo(main(PROGRAMS["while with a captured bound"].body))
    found = mx.grad(lambda x: mx.numpy.sum(program(x)))(X)
    np.testing.assert_allclose(found, -32 * X**3, rtol=1e-4, atol=1e-5)


def test_effects_keep_their_order():
    body = """
    %t = stablehlo.create_token : !stablehlo.token
    %d:2 = "stablehlo.infeed"(%t) <{infeed_config = "", layout = [[1, 0]]}>
        : (!stablehlo.token) -> (tensor<2x3xf32>, !stablehlo.token)
    %o = "stablehlo.outfeed"(%x, %d#1) <{outfeed_config = ""}>
        : (tensor<2x3xf32>, !stablehlo.token) -> !stablehlo.token
    %r = stablehlo.add %d#0, %x : tensor<2x3xf32>"""
    graph = mx.import_stablehlo(main(body)).graph
    names = [step.op.name for step in graph.pruned().instructions]
    assert names == ["AfterAll", "Infeed", "Outfeed", "Add"]
    assert graph.has_side_effect


def test_composites_are_kept():
    text = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = stablehlo.composite "my.twice" %x {composite_attributes = {n = 1 : i32},
      decomposition = @twice, version = 2 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = stablehlo.add %x, %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}"""
    program = mx.import_stablehlo(text)
    (step,) = program.graph.instructions
    assert step.op.name == "CompositeCall"
    assert (step.attributes["name"], step.attributes["version"]) == ("my.twice", 2)
    np.testing.assert_array_equal(mx.jit(program)(X), 2 * X)
    assert mx.import_stablehlo(program.graph.stablehlo()).graph == program.graph


def test_custom_calls_keep_what_they_are_given():
    text = main(
        "%r = stablehlo.custom_call @my_code(%x) {api_version = 4 : i32, backend_config = "
        '{n = 3 : i32, s = "a", v = array<i64: 1, 2>, f = 0.5 : f32, b = true}, '
        "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], "
        "result_layouts = [dense<[1, 0]> : tensor<2xindex>]} "
        ": (tensor<2x3xf32>) -> tensor<2x3xf32>"
    )
    program = mx.import_stablehlo(text)
    (step,) = program.graph.instructions
    assert step.attributes["attributes"] == (
        ("b", True),
        ("f", ("float32", 0.5)),
        ("n", ("int32", 3)),
        ("s", "a"),
        ("v", ("int64", (1, 2))),
    )
    assert step.attributes["operand_layouts"] == ((0, 1),)
    assert step.attributes["result_layouts"] is None
    assert mx.import_stablehlo(program.graph.stablehlo()).graph == program.graph


def test_arguments_are_checked():
    program = mx.import_stablehlo(MLP)
    with pytest.raises(mx.TransformError, match="1 arguments for 2 inputs"):
        program(X)
    with pytest.raises(mx.ShapeError, match=r"operand 0 has shape f32\[2,3\], .* f32\[3,2\]"):
        program(X, X)
    scalar = mx.import_stablehlo(
        main("%r = stablehlo.tanh %x : tensor<bf16>", "%x: tensor<bf16>", "tensor<bf16>")
    )
    assert scalar(0.5).dtype == jnp.bfloat16
