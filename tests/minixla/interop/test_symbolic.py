"""Programs with symbolic sizes, specialized to the sizes of their arguments."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx

F32 = np.float32


def exported(fun, *shapes, constraints=(), **options):
    """jax.export of a function of f32 arrays, whose shapes are texts such as "b, 4"."""
    scope = jax.export.SymbolicScope(constraints)
    specs = [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), F32) for shape in shapes
    ]
    return jax.export.export(jax.jit(fun), **options)(*specs)


def array(*shape):
    return np.linspace(-1, 2, int(np.prod(shape)), dtype=F32).reshape(shape)


def scanned(x):
    return jax.lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(4), x)


#: A function, the shapes of its arguments as text, and arrays that it is called with.
FUNCTIONS = {
    "product": (lambda x, w: jnp.tanh(x @ w), ["b, 4", "4, 2"], [(3, 4), (4, 2)]),
    "shared size": (lambda x, y: x + y.T, ["b, 4", "4, b"], [(3, 4), (4, 3)]),
    "polynomial": (lambda x: x.sum(1), ["2*b + 1, 3"], [(5, 3)]),
    "two sizes": (
        lambda x: (x.reshape(-1), jnp.pad(x, ((1, 2), (0, 0))), jnp.arange(x.shape[0] * 2)),
        ["a, b"],
        [(2, 3)],
    ),
    "scalar": (lambda x, s: x * s, ["b", ""], [(3,), ()]),
    "scan": (scanned, ["b, 4"], [(3, 4)]),
    "cholesky": (
        lambda x: jnp.linalg.cholesky(x @ x.transpose(0, 2, 1) + jnp.eye(3)),
        ["b, 3, 3"],
        [(2, 3, 3)],
    ),
    "nested": (
        lambda x: exported(lambda y: y * 2, "c, 4").call(x) + 1,
        ["b, 4"],
        [(3, 4)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_form_and_entry_gives_what_jax_gives(name):
    fun, texts, shapes = FUNCTIONS[name]
    written, arrays = exported(fun, *texts), [array(*shape) for shape in shapes]
    forms = [written, bytes(written.serialize()), written.mlir_module()]
    programs = [*map(mx.import_stablehlo, [*forms, written.mlir_module_serialized])]
    wanted = jax.tree.leaves(jax.jit(fun)(*arrays))
    for function in [*programs, mx.jit(programs[0]), mx.jit(written.call)]:
        found = jax.tree.leaves(function(*arrays))
        for left, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def test_transformations_and_tools():
    program = mx.import_stablehlo(exported(jnp.tanh, "b, 4"))
    x = array(3, 4)
    slope = 1 - np.tanh(x) ** 2
    np.testing.assert_allclose(mx.grad(lambda x: program(x).sum())(x), slope, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: program(x).sum())(x), slope, rtol=1e-5)
    np.testing.assert_allclose(mx.vmap(program)(array(2, 3, 4)), np.tanh(array(2, 3, 4)), rtol=1e-5)
    np.testing.assert_allclose(mx.reference(program)(x), np.tanh(x), rtol=1e-5)
    assert mx.cross_check(program, x).ok
    assert mx.cost(program, x).total.transcendentals == 12
    assert program.graph(x).input_shapes == (mx.Shape("f32", (3, 4)),)
    assert "float32[b,4]" in repr(program)
    assert "float32[b,4]" in program._repr_html_()


def test_a_program_is_made_once_for_each_combination_of_sizes():
    program = mx.import_stablehlo(exported(jnp.tanh, "b, 4"))
    graphs = [program.graph(array(size, 4)) for size in (3, 5, 3)]
    assert graphs[0] is graphs[2]
    assert graphs[0] is not graphs[1]


def test_pytrees_and_arguments_by_name():
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), F32)
    fun = jax.jit(lambda t, *, y: {"sum": t["w"] + y})
    program = mx.import_stablehlo(jax.export.export(fun)({"w": spec}, y=spec))
    np.testing.assert_array_equal(program({"w": array(3)}, y=array(3))["sum"], 2 * array(3))
    with pytest.raises(mx.TransformError, match=r"kwargs\['y'\] has shape f32\[1,3\]"):
        program({"w": array(3)}, y=array(1, 3))


def test_the_program_of_this_platform_is_taken():
    def fun(x):
        return jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)

    written = exported(fun, "b", platforms=("cuda", "cpu"))
    np.testing.assert_allclose(mx.import_stablehlo(written)(array(3)), np.sin(array(3)), rtol=1e-6)


def test_symbolic_traces_of_jax_call_the_exported_function():
    program = mx.import_stablehlo(exported(jnp.tanh, "b, 4"))
    again = exported(lambda x: program(x) * 2, "c, 4")
    np.testing.assert_allclose(again.call(array(5, 4)), 2 * np.tanh(array(5, 4)), rtol=1e-5)


MODULE = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.add %x, %y : tensor<?x4xf32>
  %1 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
  %3 = stablehlo.constant dense<2> : tensor<1xi32>
  %4 = stablehlo.multiply %2, %3 : tensor<1xi32>
  %5 = stablehlo.concatenate %3, %4, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %6 = stablehlo.dynamic_reshape %0, %5 : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %6 : tensor<?x?xf32>
}
func.func @sine(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.sine %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @calls(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.convert %x : (tensor<2x4xf32>) -> tensor<?x4xf32>
  %1 = call @main(%0, %0) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?xf32>
  %2 = stablehlo.convert %1 : (tensor<?x?xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}
"""
ASSERTION = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %1 = stablehlo.constant dense<2> : tensor<i32>
  %2 = stablehlo.compare GE, %0, %1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%2, %0) {has_side_effect = true,
      error_message = "the batch must have at least 2 elements, got {0}"}
      : (tensor<i1>, tensor<i32>) -> ()
  return %x : tensor<?xf32>
}
"""


def test_dynamic_operations_and_functions_by_name():
    program, x = mx.import_stablehlo(MODULE), array(3, 4)
    np.testing.assert_array_equal(program(x, x), (2 * x).reshape(2, 6))
    assert program(array(0, 4), array(0, 4)).shape == (2, 0)
    np.testing.assert_allclose(program.functions["sine"](array(3)), np.sin(array(3)), rtol=1e-6)
    calls = mx.import_stablehlo(MODULE, "calls")
    np.testing.assert_array_equal(calls(array(2, 4)), 2 * array(2, 4))
    text = jax.jit(exported(jnp.tanh, "b, 4").call).lower(x).as_text()
    np.testing.assert_allclose(mx.import_stablehlo(text)(x), np.tanh(x), rtol=1e-5)


def test_sizes_inside_a_static_program():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<?xf32>
      %1 = stablehlo.sine %0 : tensor<?xf32>
      %2 = stablehlo.convert %1 : (tensor<?xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    np.testing.assert_allclose(mx.import_stablehlo(text)(array(4)), np.sin(array(4)), rtol=1e-6)


FROM_VALUES = """func.func @main(%x: tensor<?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
ADD = jnp.add
#: A program, arguments that it does not take, and what the error says.
INVALID = {
    "constraint": (
        lambda: exported(jnp.tanh, "b, 4", constraints=["b >= 4"]),
        [array(3, 4)],
        r"shape constraint b >= 4.* found -1.*\n *args\[0\]: f32\[3,4\], declared float32\[b,4\]",
    ),
    "constraint, text": (
        lambda: exported(jnp.tanh, "b, 4", constraints=["b >= 4"]).mlir_module(),
        [array(3, 4)],
        r"symbolic shape constraint b >= 4.*\n *argument 0: f32\[3,4\], declared tensor<\?x4xf32>",
    ),
    "divisor": (
        lambda: exported(jnp.tanh, "b", constraints=["mod(b, 2) == 0"]),
        [array(3)],
        r"constraint 2\*floordiv\(b, 2\) == b",
    ),
    "shared size": (
        lambda: exported(ADD, "b, 4", "b, 4"),
        [array(3, 4), array(2, 4)],
        r"inconsistency between dimension size args\[1\].shape\[0\] \(= 2\).* 'b' \(= 3\)",
    ),
    "polynomial": (
        lambda: exported(jnp.tanh, "2*b + 1"),
        [array(4)],
        "Division had remainder 1 when computing the value of 'b'",
    ),
    "assertion": (lambda: ASSERTION, [array(1)], "must have at least 2 elements, got 1"),
    "other size": (
        lambda: exported(ADD, "b, 4", "b, 4"),
        [array(3, 4), array(3, 5)],
        r"args\[1\] has shape f32\[3,5\], but the program takes float32\[b,4\]",
    ),
    "rank": (lambda: MODULE, [array(3, 4), array(4)], "argument 1 has shape"),
    "count": (lambda: MODULE, [array(3, 4)], "1 arguments for 2 inputs"),
    "no array": (lambda: ASSERTION, ["a"], "of type str is not an array"),
    "sizes of an operation": (
        lambda: MODULE,
        [array(3, 4), array(2, 4)],
        "line 3, column 8: the sizes of the arguments do not fit: .*requires the same shape",
    ),
    "size from a value": (
        lambda: FROM_VALUES,
        [array(3), np.int32([3])],
        "does not follow from the arguments: line 2, column 8.*not from their values",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_arguments_that_a_program_does_not_take(name):
    source, arguments, match = INVALID[name]
    program = mx.import_stablehlo(source())
    with pytest.raises(mx.MinixlaError, match=f"(?s){match}"):
        program(*arguments)


def test_static_sizes_that_violate_an_assertion():
    with pytest.raises(mx.TransformError, match="must have at least 2 elements, got 1"):
        mx.import_stablehlo(ASSERTION.replace("tensor<?", "tensor<1"))


@pytest.mark.parametrize("entry", ["make_graph", "jit"])
def test_traces_do_not_take_symbolic_sizes(entry):
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 4"), F32)
    function = {
        "make_graph": lambda: mx.make_graph(mx.numpy.tanh)(spec),
        "jit": lambda: mx.jit(mx.numpy.tanh).lower(spec),
    }[entry]
    with pytest.raises(mx.ShapeError, match=r"(?s)symbolic sizes \(b\).*with mx.export"):
        function()
