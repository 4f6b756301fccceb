"""import_stablehlo: forms of programs, what is kept, what is refused, what can be done with it."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.extend.mlir.dialects import stablehlo

import minixla as mx
from minixla.core.attributes import Literal
from minixla.interop import reading
from tests.harness import by_jax, calls_of
from tests.minixla.interop.import_programs import MLP, PROGRAMS, as_artifact, as_bytecode, main

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def loss(w, x):
    return jnp.sum(jnp.tanh(x @ w))


@functools.cache
def expected():
    """What JAX gives for a matrix: the loss, its derivative, and losses of a batch."""

    def in_jax(w, batch):
        return loss(w, X), jax.grad(loss)(w, X), jax.vmap(loss, (0, None))(batch, X)

    return by_jax(in_jax, X.T.copy(), np.stack([X.T, 2 * X.T]))


def check_program(program):
    w = X.T.copy()
    value, gradient, values = expected()
    for run in (program, mx.jit(program), mx.reference(program)):
        np.testing.assert_allclose(run(w, X), value, rtol=1e-5)
    np.testing.assert_allclose(mx.jit(mx.grad(program))(w, X), gradient, rtol=1e-4, atol=1e-6)
    batch = np.stack([w, 2 * w])
    np.testing.assert_allclose(mx.vmap(program, (0, None))(batch, X), values, rtol=1e-5)


def test_text(tmp_path):
    program = mx.import_stablehlo(MLP)
    check_program(program)
    assert list(program.functions) == ["act", "main"]
    assert [step.op.name for step in program.graph.instructions][1] == "Call"
    np.testing.assert_allclose(program.functions["act"](X[:, :2]), np.tanh(X[:, :2]), rtol=1e-6)
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    for name in (path, str(path)):
        assert mx.import_stablehlo(name).graph == program.graph
    with pytest.raises(mx.ImportError_, match=r"cannot read no/such.mlir: .*No such file"):
        mx.import_stablehlo("no/such.mlir")
    (shape,) = mx.import_stablehlo(MLP, function="act").graph.output_shapes
    assert str(shape) == "f32[2,2]"


@pytest.mark.parametrize("form", [as_bytecode, as_artifact, str.encode])
def test_other_forms(form):
    program = mx.import_stablehlo(form(MLP))
    assert program.graph == mx.import_stablehlo(MLP).graph
    check_program(program)


def versions():
    """Versions of StableHLO, the oldest that jaxlib can write and some later ones."""
    oldest = tuple(map(int, stablehlo.get_minimum_version().split(".")))
    newest = stablehlo.get_current_version()
    between = ["1.0.0", "1.4.0", "1.8.0", "1.12.0"]
    later = [each for each in between if tuple(map(int, each.split("."))) > oldest]
    return [stablehlo.get_minimum_version(), *later, newest]


@pytest.mark.parametrize("version", versions())
def test_portable_artifacts_of_versions(version):
    artifact = stablehlo.serialize_portable_artifact_str(MLP, version)
    assert version.encode() in artifact
    assert mx.import_stablehlo(artifact).graph == mx.import_stablehlo(MLP).graph
    text = main(PROGRAMS["while with a captured bound"].body)
    artifact = stablehlo.serialize_portable_artifact_str(text, version)
    assert mx.import_stablehlo(artifact).graph == mx.import_stablehlo(text).graph


def test_exported_by_jax():
    def nested(parameters, x):
        return {"loss": loss(parameters["w"], x), "unused": parameters["b"]}

    given = {"w": X.T.copy(), "b": np.float32(3), "c": np.ones(2, np.float32)}
    exported = jax.export.export(jax.jit(nested))(given, X)
    program = mx.import_stablehlo(exported)
    value, slope, _ = expected()
    for run in (program, mx.reference(program)):
        found = run(given, X)
        np.testing.assert_allclose(found["loss"], value, rtol=1e-5)
        assert found["unused"] == 3
    gradient = mx.grad(lambda p: program(p, X)["loss"])(given)
    np.testing.assert_allclose(gradient["w"], slope, rtol=1e-4, atol=1e-6)
    with pytest.raises(mx.TransformError, match="the structure of the arguments is not that"):
        program(given)


def test_source_lines():
    for written, line in ((12, 12), (2**31 - 100, 2**31 - 100), (2**31 - 1, 0), (2**32 - 1, 0)):
        text = main(f'%r = stablehlo.tanh %x : tensor<2x3xf32> loc("model.py":{written}:3)')
        (step,) = mx.import_stablehlo(text).graph.instructions
        assert str(step.source) == f"model.py:{line} (program)"
    (step,) = mx.import_stablehlo(
        main("%r = stablehlo.tanh %x : tensor<2x3xf32>")
    ).graph.instructions
    assert str(step.source) == "<stablehlo>:2 (program)"


def bits(dtype: str, *numbers: int) -> np.ndarray:
    return np.array(numbers, dtype)


# By MLIR's element type: three numbers as it writes them, and the bits that they are.
CONSTANTS = {
    "i1": ("[true, false, true]", bits("uint8", 1, 0, 1)),
    "i4": ("[-8, 0, 7]", np.array([-8, 0, 7], ml_dtypes.int4)),
    "ui2": ("[3, 0, 1]", np.array([3, 0, 1], ml_dtypes.uint2)),
    "i64": ("[-9223372036854775808, 0, 7]", bits("int64", -(2**63), 0, 7)),
    "ui64": ("[18446744073709551615, 0, 1]", bits("uint64", 2**64 - 1, 0, 1)),
    "f32": ("[0x7FC00001, 1.5e-45, -0.0]", bits("uint32", 0x7FC00001, 1, 0x80000000)),
    "f64": ("[0.5, 0x7FF0000000000000, 5.0e-324]", bits("uint64", 0x3FE << 52, 0x7FF << 52, 1)),
    "f16": ("[0x7C00, 1.0, -2.5]", bits("uint16", 0x7C00, 0x3C00, 0xC100)),
    "bf16": ("[1.0, 0x7FC0, 3.140625]", bits("uint16", 0x3F80, 0x7FC0, 0x4049)),
    "f8E4M3FN": ("[1.0, 0x7F, -448.0]", bits("uint8", 0x38, 0x7F, 0xFE)),
    "f4E2M1FN": ("[6.0, -0.5, 0.0]", bits("uint8", 7, 9, 0)),
    "complex<f32>": (
        "[(1.0, -2.5), (0x7F800000, 0.0), (0.5, 3.0)]",
        np.array([1 - 2.5j, complex(np.inf, 0), 0.5 + 3j], np.complex64),
    ),
    "complex<f64>": (
        "[(0.1, 0.2), (0.3, 0.4), (0.5, 0.6)]",
        np.array([0.1 + 0.2j, 0.3 + 0.4j, 0.5 + 0.6j]),
    ),
}


def constant_of(type_: str, value: str) -> mx.Graph:
    text = main(f"%r = stablehlo.constant dense<{value}> : {type_}", "", type_)
    graph = mx.import_stablehlo(text).graph
    assert mx.import_stablehlo(graph.stablehlo()).graph == graph
    return graph


def literal_in(graph: mx.Graph) -> Literal:
    return graph.instructions[0].op.literal


@pytest.mark.parametrize("element", CONSTANTS)
def test_constants(element):
    text, wanted = CONSTANTS[element]
    listed = literal_in(constant_of(f"tensor<3x{element}>", text))
    assert not listed.is_splat
    assert listed.array.tobytes() == wanted.tobytes()
    first = text.strip("[]").split("), " if "complex" in element else ", ")[0]
    splat = literal_in(constant_of(f"tensor<3x{element}>", first + ")" * ("complex" in element)))
    assert splat.is_splat
    assert splat.array.tobytes() == wanted[[0, 0, 0]].tobytes()
    for value in ("", first + ")" * ("complex" in element)):
        assert literal_in(constant_of(f"tensor<0x3x{element}>", value)).array.shape == (0, 3)
    tiled = np.tile(listed.array, 40)
    literal = Literal(tiled, listed.shape.with_dimensions(tiled.shape))
    graph = mx.make_graph(lambda: mx.ops.constant(literal))()
    # Long constants are written in hexadecimal.
    assert 'dense<"0x' in graph.stablehlo()
    again = literal_in(mx.import_stablehlo(graph.stablehlo()).graph)
    assert again.array.tobytes() == tiled.tobytes()


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
    assert (step.op.composite_name, step.op.version) == ("my.twice", 2)
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
    assert step.op.options == (
        ("b", True),
        ("f", ("float32", 0.5)),
        ("n", ("int32", 3)),
        ("s", "a"),
        ("v", ("int64", (1, 2))),
    )
    assert step.op.operand_layouts == ((0, 1),)
    assert step.op.result_layouts is None
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


@pytest.mark.parametrize("most", [0, 200, 1 << 20])
def test_programs_that_share_a_context(monkeypatch, most):
    """However many one context reads, and whichever threads ask, each is read as it stands."""
    # Threads that are made from here on make their contexts with it.
    monkeypatch.setattr(
        reading, "SharedContexts", functools.partial(reading.SharedContexts, most=most)
    )

    def read(number):
        constant = f"%c = stablehlo.constant dense<{number}.0> : tensor<2x3xf32>"
        text = main(f"{constant}\n%r = stablehlo.add %x, %c : tensor<2x3xf32>")
        with pytest.raises(mx.ImportError_, match="expected"):
            mx.import_stablehlo(text.replace("add", "add add"))
        return mx.import_stablehlo(text)

    with ThreadPoolExecutor(2) as threads:
        programs = list(threads.map(read, range(6)))
    for number, program in enumerate(programs):
        np.testing.assert_array_equal(mx.reference(program)(X), X + np.float32(number))


def test_each_operation_takes_a_few_calls_however_long_the_program_is():
    def text(count):
        def chain(x):
            for _ in range(count // 2):
                x = jnp.tanh(x) * x
            return x

        return jax.jit(chain).lower(X).as_text(debug_info=True)

    counts = {}
    for count in (1_000, 10_000):
        source = text(count)
        assert len(mx.import_stablehlo(source).graph.instructions) == count
        counts[count] = calls_of(lambda source=source: mx.import_stablehlo(source))
    assert counts[10_000] < 11 * counts[1_000]
    assert counts[10_000] < 30 * 10_000


def test_each_operation_has_its_line_and_each_copy_of_a_constant_that_of_its_use():
    steps = [f"%{n} = stablehlo.tanh %{n - 1} : tensor<2x3xf32>" for n in range(1, 200)]
    region = """
    %c = stablehlo.constant dense<1.0> : tensor<f32>
    %r = "stablehlo.map"(%199) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>):
      %n = stablehlo.negate %a : tensor<f32>
      %m = stablehlo.add %n, %c : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>"""
    text = main("\n".join(steps) + region, "%0: tensor<2x3xf32>")
    graph = mx.import_stablehlo(text).graph
    assert [step.source.line for step in graph.instructions[:199]] == [*range(2, 201)]
    (inner,) = graph.computations
    lines = {step.op.name: step.source.line for step in inner.instructions}
    assert lines == {"Neg": 204, "Constant": 205, "Add": 205}


def test_an_accuracy_request_is_kept():
    accuracy = "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>"
    step = f"%r = stablehlo.exponential %x {{result_accuracy = {accuracy}}} : tensor<2x3xf32>"
    assert "result_accuracy={mode=highest}" in str(mx.import_stablehlo(main(step)).graph)


COLLECTIVES = {
    "all_reduce": (
        """
    %r = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>""",
        lambda x, y: (np.maximum(x, y),) * 2,
    ),
    "collective_permute": (
        """
    %r = "stablehlo.collective_permute"(%x) <{
        source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<2x3xf32>) -> tensor<2x3xf32>""",
        lambda x, y: (np.zeros_like(x), x),
    ),
    "gather, scatter": (
        """
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<2x3xf32>) -> tensor<4x3xf32>
    %r = "stablehlo.reduce_scatter"(%g) <{scatter_dimension = 0 : i64,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<4x3xf32>) -> tensor<2x3xf32>""",
        lambda x, y: (2 * x, 2 * y),
    ),
    "replica_id": (
        """
    %i = stablehlo.replica_id : tensor<ui32>
    %f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %r = stablehlo.add %x, %b : tensor<2x3xf32>""",
        lambda x, y: (x, y + 1),
    ),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_between_simulated_processes(name):
    body, wanted = COLLECTIVES[name]
    program = mx.import_stablehlo(main(body))
    found = mx.simulate([[program], [program]], [[(X,)], [(X[::-1],)]])
    for (actual,), expected in zip(found, wanted(X, X[::-1]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert mx.import_stablehlo(program.graph.stablehlo()).graph == program.graph


def test_transfers_between_simulated_processes():
    send = main(
        """
    %t = stablehlo.create_token : !stablehlo.token
    %u = "stablehlo.send"(%x, %t) <{
        channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>,
        source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<2x3xf32>, !stablehlo.token) -> !stablehlo.token
    %r = stablehlo.negate %x : tensor<2x3xf32>"""
    )
    receive = main(
        """
    %t = stablehlo.create_token : !stablehlo.token
    %v:2 = "stablehlo.recv"(%t) <{
        channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>,
        source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (!stablehlo.token) -> (tensor<2x3xf32>, !stablehlo.token)
    %r = stablehlo.add %v#0, %x : tensor<2x3xf32>"""
    )
    programs = [[mx.import_stablehlo(send), mx.import_stablehlo(receive)]]
    ((first, second),) = mx.simulate(programs, [[(X,), (np.ones_like(X),)]])
    np.testing.assert_array_equal(first, -X)
    np.testing.assert_array_equal(second, X + 1)
