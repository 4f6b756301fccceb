"""Kernels of every kind under every transformation, and which kernel is taken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

import minixla as mx
from minixla.core.tracing import evaluate_graph
from minixla.extension.kernel_table import forced
from minixla.tools.costs import graph_cost

_NUMBERS = count()
X = np.linspace(-1.5, 2, 4, dtype=np.float32)


def define(inputs=("x: T",), outputs=("y: T",), attrs=("T: {float, double, int32}",), **options):
    options.setdefault("shape_fn", mx.unchanged_shape)
    name = f"KernelTest{next(_NUMBERS)}"
    return mx.register_op(name, attrs=attrs, inputs=inputs, outputs=outputs, **options)


def cube(ctx, x):
    return x * x * x


def gradient(ctx, grad):
    (x,) = ctx.inputs
    return [3 * x * x * grad]


def pushed(ctx, tangent):
    return 3 * ctx.inputs[0] * ctx.inputs[0] * tangent


def of_composition(library):
    op = define(shape_fn=None)
    op.composition(cube)
    return op


def of_jax(library):
    op = define(shape_fn=None)
    op.kernel("any", lambda ctx, x: jnp.power(x, 3))
    return op


def of_platform(library):
    op = define()
    op.kernel("reference", cube)
    op.kernel("cpu", cube)
    return op


def of_platform_with_gradient(library):
    op = of_platform(library)
    op.gradient(gradient)
    return op


def of_platform_with_jvp(library):
    op = of_platform(library)
    op.jvp(pushed)
    return op


def of_pallas(library):
    def kernel(x, out):
        out[...] = x[...] * x[...] * x[...]

    def call(x, interpret):
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pallas.pallas_call(kernel, out_shape=result, interpret=interpret)(x)

    op = define()
    op.kernel("reference", cube)
    op.kernel("cpu", lambda ctx, x: call(x, True))
    op.kernel("tpu", lambda ctx, x: call(x, False))
    op.gradient(gradient)
    return op


def of_host(library):
    op = define(host_fallback=True)
    op.kernel("reference", cube)
    op.gradient(gradient)
    return op


def of_foreign_code(library):
    op = define(["x: float"], ["y: float"], [])
    op.kernel("reference", cube)
    op.kernel("cpu", ffi="cube", library=library)
    op.gradient(gradient)
    return op


def of_function(library):
    @mx.custom_op(f"kernel_test.cube_{next(_NUMBERS)}")
    def cubed(x: mx.Array) -> mx.Array:
        return x * x * x

    return cubed


KINDS = [of_composition, of_jax, of_platform_with_gradient, of_platform_with_jvp, of_host]
KINDS += [of_foreign_code, of_function, of_pallas]


@pytest.fixture(scope="module", params=KINDS, ids=lambda each: each.__name__)
def op(request, library):
    return request.param(library)


def total(function):
    return lambda x: function(x).sum()


def scanned(function, x):
    return mx.scan(lambda carry, e: (carry + function(e), function(e)), x * 0, np.stack([x, 2 * x]))


# By name what is done with the function, and what it gives for x ** 3.
TRANSFORMED = {
    "eager": (lambda f: f(X), X**3),
    "jit": (lambda f: mx.jit(f)(X), X**3),
    "grad": (lambda f: mx.grad(total(f))(X), 3 * X**2),
    "jit of grad of grad": (
        lambda f: mx.jit(mx.grad(total(mx.grad(total(f)))))(X),
        6 * X,
    ),
    "third order": (
        lambda f: mx.jit(mx.grad(total(mx.grad(total(mx.grad(total(f)))))))(X),
        6 + 0 * X,
    ),
    "jvp": (lambda f: mx.jvp(f, (X,), (X,))[1], 3 * X**3),
    "jvp of grad": (lambda f: mx.jvp(mx.grad(total(f)), (X,), (X,))[1], 6 * X**2),
    "grad of jvp": (
        lambda f: mx.jit(mx.grad(lambda x: mx.jvp(f, (x,), (X,))[1].sum()))(X),
        6 * X**2,
    ),
    "linearize": (lambda f: mx.linearize(f, X)[1](X), 3 * X**3),
    "vmap": (lambda f: mx.vmap(f)(X), X**3),
    "jit of vmap of grad": (lambda f: mx.jit(mx.vmap(mx.grad(f)))(X), 3 * X**2),
    "large vmap": (
        lambda f: mx.jit(mx.vmap(f))(np.stack([X] * 40)),
        np.stack([X**3] * 40),
    ),
    "scan": (lambda f: scanned(f, X)[0], 9 * X**3),
    "grad of scan": (
        lambda f: mx.jit(mx.grad(lambda x: scanned(f, x)[0].sum()))(X),
        27 * X**2,
    ),
    "inside jax.jit": (lambda f: jax.jit(lambda x: f(jnp.sin(x)))(X), np.sin(X) ** 3),
    "inside jax.grad": (lambda f: jax.grad(lambda x: f(x).sum())(X), 3 * X**2),
    "inside jax.vmap": (lambda f: jax.vmap(f)(jnp.asarray(X)), X**3),
    "reference": (lambda f: mx.reference(f)(X), X**3),
    "reference of grad": (lambda f: mx.reference(mx.grad(total(f)))(X), 3 * X**2),
    "checkpoint": (lambda f: mx.grad(total(mx.checkpoint(f)))(X), 3 * X**2),
}


# Those of them that others stand for where there is little time.
OFTEN = ["jit", "jit of grad of grad", "jvp", "jit of vmap of grad", "large vmap", "scan"]
OFTEN += ["inside jax.jit", "reference"]
SELDOM = [pytest.param(each, marks=pytest.mark.full) for each in TRANSFORMED if each not in OFTEN]


@pytest.mark.parametrize("name", [*OFTEN, *SELDOM])
def test_c1_and_c63_transformations_of_kernels_of_every_kind(op, name):
    transformed, wanted = TRANSFORMED[name]
    np.testing.assert_allclose(transformed(op.wrapper), wanted, rtol=1e-5, atol=1e-5)


def test_kernels_of_every_kind_are_checked(op):
    mx.check_grads(op.wrapper, (X,), order=2)
    report = mx.cross_check(lambda x: op.wrapper(x) * x, X)
    assert report.ok, str(report)


def test_a_graph_names_the_operation_and_evaluates_to_it(op):
    graph = mx.make_graph(op.wrapper)(X)
    assert [each.op.name for each in graph.instructions] == [op.name]
    np.testing.assert_allclose(evaluate_graph(graph, [X])[0], X**3, rtol=1e-6)


class TestChoice:
    """Which kernel is taken: every kernel here gives a number of its own."""

    @staticmethod
    def giving(number):
        return lambda ctx, x: x * 0 + np.asarray(number, x.dtype)

    def test_c28_and_c41_the_narrowest_kernel_is_taken(self):
        op = define(attrs=["T: {float, int32, uint8, double}", "mode: {'a', 'b'} = 'a'"])
        op.kernel("any", self.giving(1))
        op.kernel("cpu", self.giving(2))
        op.kernel("cpu", self.giving(3), T=["float", "int32"])
        op.kernel("cpu", self.giving(4), T="float")
        op.kernel("cuda", self.giving(5), T="float")
        op.kernel("cpu", self.giving(6), T=np.uint8, mode="b")
        op.kernel("reference", self.giving(7))
        assert op(X)[0] == 4
        assert op(np.int32([1]))[0] == 3
        assert op(np.uint8([1]))[0] == 2
        assert op(np.uint8([1]), mode="b")[0] == 6
        assert mx.reference(op.wrapper)(X)[0] == 7

    def test_c28_an_operation_may_have_kernels_for_some_types_alone(self):
        op = define(attrs=["T: {float, double, int32}"])
        op.kernel("cpu", self.giving(1), T=["float", "double"])
        assert op(X)[0] == 1
        with pytest.raises(
            mx.TransformError, match="no kernel is registered for the platform cpu"
        ) as caught:
            op(np.int32([1]))
        message = str(caught.value)
        assert "the cpu kernel for T in {float, double} at" in message and "T = s32" in message

    def test_c29_types_are_given_by_the_name_of_a_set(self):
        op = define(attrs=["T: {float, int32, bool, complex64}"])
        op.kernel("cpu", self.giving(1), T="numbertype")
        op.kernel("cpu", self.giving(2), T="realnumbertype")
        op.kernel("any", lambda ctx, x: x)
        assert op(np.complex64([3]))[0] == 1
        assert op(X)[0] == 2
        assert op(np.array([True]))[0]

    def test_c41_two_kernels_of_which_none_is_narrower(self):
        op = define(attrs=["T: {float, int32}", "n: int"])
        op.kernel("cpu", self.giving(1), T="float")
        op.kernel("cpu", self.giving(2), n=3)
        assert op(X, 2)[0] == 1
        with pytest.raises(mx.TransformError, match="several kernels match these attributes") as e:
            op(X, 3)
        assert "T in {float}" in str(e.value) and "n in {3}" in str(e.value)
        op.kernel("cpu", self.giving(3), n=3, priority=1)
        assert op(X, 3)[0] == 3

    def test_c41_the_same_kernel_twice(self):
        op = define()
        op.kernel("cpu", self.giving(1), T=["float", "int32"])
        with pytest.raises(
            mx.AttributeValueError, match="a kernel for the same platform and attributes"
        ):
            op.kernel("cpu", self.giving(2), T=["int32", "float"])

    @pytest.mark.parametrize(
        "platform, given, says",
        [
            ("gpgpu", {}, "platform 'gpgpu' is unknown"),
            ("cpu", {"U": "float"}, "for values of U, which is not an attribute"),
            ("cpu", {"T": "complex64"}, "a kernel is for a value that T cannot have"),
            ("cpu", {"n": -1}, "a kernel is for a value that n cannot have"),
        ],
    )
    def test_a_kernel_for_what_there_is_not(self, platform, given, says):
        op = define(attrs=["T: {float, int32}", "n: int >= 0 = 0"])
        with pytest.raises(mx.AttributeValueError, match=says):
            op.kernel(platform, self.giving(1), **given)

    def test_a_kernel_given_in_two_ways(self):
        op = define()
        with pytest.raises(mx.AttributeValueError, match="a kernel is given twice"):
            op.kernel("cpu", cube, host=True)

    def test_attributes_with_names_of_parameters(self):
        op = define(attrs=["T: type", "priority: int = 0"])
        op.kernel("cpu", self.giving(1), where={"priority": 2})
        op.kernel("cpu", self.giving(2))
        assert (op(X, 2)[0], op(X, 1)[0]) == (1, 2)

    def test_a_kernel_is_forced_upon_one_thread(self):
        op, other = define(), define()
        for each in (op, other):
            each.kernel("cpu", self.giving(1), priority=1)
            each.kernel("cpu", self.giving(2))

        def both():
            return mx.jit(lambda x: (op(x)[0], other(x)[0]))(X)

        with forced(op.kernels.listed[1]), ThreadPoolExecutor(1) as pool:
            assert both() == (2, 1)
            assert pool.submit(both).result() == (1, 1)
        assert both() == (1, 1)

    def test_c41_and_c47_a_kernel_is_found_when_the_program_is_made(self):
        op = define()
        op.kernel("cuda", cube)
        with pytest.raises(
            mx.TransformError, match="no kernel is registered for the platform cpu"
        ) as caught:
            mx.jit(op.wrapper).lower(X)
        assert "the cuda kernel at" in str(caught.value)
        assert "test_kernels.py" in str(caught.value)
        exported = jax.export.export(jax.jit(op.wrapper), platforms=["cuda"])(X)
        assert "multiply" in exported.mlir_module()

    def test_c41_the_reference_runs_on_the_host_where_it_is_asked_for(self):
        op = define()
        op.kernel("reference", cube)
        with pytest.raises(
            mx.TransformError, match="no kernel is registered for the platform cpu"
        ) as caught:
            op(X)
        assert "host_fallback=True in register_op runs the reference" in str(caught.value)
        op.kernel("cpu", host=True, T="float")
        np.testing.assert_allclose(op(X), X**3, rtol=1e-6)
        with pytest.raises(mx.TransformError, match="no kernel is registered for the platform cpu"):
            op(np.int32([1]))


@pytest.mark.parametrize("attributes", [{}, {"T": "float"}], ids=["all", "some"])
def test_a_composition_is_looked_into_and_leaves_the_class_as_it_was(attributes):
    op = define()
    bases = op.operation.__mro__
    op.kernel("any", cube, **attributes)
    assert op.operation.__mro__ == bases
    graph = mx.make_graph(op.wrapper)(X)
    assert graph_cost(graph).flops == 2 * X.size
    assert mx.cross_check(op.wrapper, X).ok


def test_c44_a_kernel_for_a_platform_that_is_not_here():
    op = of_pallas(None)
    given = np.ones((8, 128), np.float32)
    program = jax.export.export(jax.jit(mx.grad(total(op.wrapper))), platforms=["tpu"])(given)
    assert "tpu_custom_call" not in program.mlir_module()  # the gradient does without it
    program = jax.export.export(jax.jit(op.wrapper), platforms=["tpu"])(given)
    assert "tpu_custom_call" in program.mlir_module()


def test_c63_without_a_derivative_an_error_says_so():
    op = define()
    op.kernel("cpu", cube)
    for derivative in (
        lambda: mx.grad(total(op.wrapper))(X),
        lambda: mx.jvp(op.wrapper, (X,), (X,)),
        lambda: mx.jit(mx.grad(total(op.wrapper)))(X),
    ):
        with pytest.raises(mx.DerivativeError, match="no derivative is registered for it") as e:
            derivative()
        message = str(e.value)
        assert message.startswith(op.operation.builder_name) and "@op.gradient" in message
        assert "test_kernels.py" in message


def test_c63_not_differentiable_gives_zeros():
    op = define()
    op.kernel("cpu", cube)
    op.not_differentiable("it is not meant to be")
    np.testing.assert_array_equal(mx.grad(lambda x: (op(x) * x).sum())(X), X**3)
    assert not np.any(mx.jvp(op.wrapper, (X,), (X,))[1])


def test_c63_a_derivative_is_given_once():
    op = define()
    op.gradient(gradient)
    for again in (op.gradient, op.jvp):
        with pytest.raises(mx.TransformError, match="the operation has gradient already"):
            again(gradient)
    with pytest.raises(mx.TransformError, match="not_differentiable is given, but"):
        op.not_differentiable()


def test_c63_the_context_of_a_gradient():
    op = define(
        ["x: float", "i: int32"],
        ["y: float", "z: float"],
        ["n: int"],
        shape_fn=lambda ctx, x, i: [x, x],
    )
    op.kernel("cpu", lambda ctx, x, i: (x * ctx.attr("n"), x * x))
    op.kernel("reference", lambda ctx, x, i: (x * np.float32(ctx.attr("n")), x * x))
    seen = []

    @op.gradient
    def _(ctx, grads):
        seen.append((ctx.attr("n"), len(ctx.inputs), len(ctx.outputs), ctx.input_shapes))
        return [grads[0] * ctx.attr("n") + 2 * ctx.inputs[0] * grads[1], None]

    found = mx.grad(lambda x: op(x, np.int32(1), 5).y.sum())(X)  # z has no cotangent
    np.testing.assert_array_equal(found, 5 + 0 * X)
    assert [str(each) for each in seen[0][3]] == ["f32[4]", "s32[]"]
    assert seen[0][:3] == (5, 2, 2)
    mx.check_grads(lambda x: op(x, np.int32(1), 5), (X,), order=2)


@pytest.mark.parametrize(
    "rule, says",
    [
        (lambda ctx, grad: [grad, grad], "the gradient function returned a value of another form"),
        (lambda ctx, grad: [grad[:1]], "the cotangent 0 of its rule does not fit the value"),
        (lambda ctx, grad: [], "Return one value for each of"),
    ],
)
def test_c63_a_gradient_that_does_not_fit(rule, says):
    op = define()
    op.kernel("cpu", cube)
    op.gradient(rule)
    with pytest.raises((mx.DerivativeError, mx.TransformError), match=says):
        mx.grad(total(op.wrapper))(X)


def test_c63_several_inputs_and_a_jvp():
    op = define(["x: float", "i: int32", "y: float"], ["z: float"], [])
    op.kernel("cpu", lambda ctx, x, i, y: x * y)
    op.kernel("reference", lambda ctx, x, i, y: x * y)

    @op.jvp
    def _(ctx, tangents):
        assert tangents[1] is None
        x, _, y = ctx.inputs
        return tangents[0] * y + x * tangents[2]

    def function(x, y):
        return op(x, np.int32(1), y)

    mx.check_grads(function, (X, X + 1), order=2)
    np.testing.assert_array_equal(mx.grad(lambda x: function(x, X).sum())(X), X)


SIZES = [3, 40]


@pytest.mark.parametrize("size", SIZES)
class TestBatching:
    """Batching rules: the kernel sums what it is given along its last dimension."""

    @staticmethod
    def summing(rule, ranks):
        op = define(
            ["x: float", "w: float"],
            ["y: float"],
            [],
            shape_fn=lambda ctx, x, w: [max(pair) for pair in zip(x, w, strict=True)][:-1],
        )

        @op.kernel("cpu")
        def _(ctx, x, w):
            ranks.append((x.ndim, w.ndim))
            return (x * w).sum(-1)

        if rule is not None:
            op.batching(rule)
        return op

    @pytest.mark.parametrize(
        "rule, wanted",
        [
            (None, (1, 1)),
            ("sequential", (1, 1)),
            ("broadcast_all", (2, 2)),
            ("expand_dims", (2, 2)),
        ],
    )
    @pytest.mark.parametrize("in_axes", [(0, None), (1, 0), (None, 0)])
    def test_c64_rules(self, size, rule, wanted, in_axes):
        ranks = []
        op = self.summing(rule, ranks)
        rows = np.arange(4 * size, dtype=np.float32).reshape(size, 4)
        given = [X if at is None else np.moveaxis(rows, 0, at) for at in in_axes]
        found = mx.jit(mx.vmap(op.wrapper, in_axes=in_axes))(*given)
        both = [X if at is None else rows for at in in_axes]
        np.testing.assert_allclose(found, (both[0] * both[1]).sum(-1), rtol=1e-5)
        assert set(ranks) == {wanted}

    def test_c64_a_function(self, size):
        ranks = []

        def rule(ctx, inputs, dimensions):
            (x, w), (at, other) = inputs, dimensions
            assert at == 1 and other is None
            return op(x.T, mx.numpy.broadcast_to(w, x.T.shape)), 0

        op = self.summing(rule, ranks)
        rows = np.arange(4 * size, dtype=np.float32).reshape(size, 4)
        found = mx.vmap(op.wrapper, in_axes=(1, None))(rows.T, X)
        np.testing.assert_allclose(found, (rows * X).sum(-1), rtol=1e-5)
        assert set(ranks) == {(2, 2)}


def test_c64_a_rule_that_the_kernel_does_not_keep():
    op = define(["x: float"], ["y: float"], [], shape_fn=lambda ctx, x: ())
    op.kernel("cpu", lambda ctx, x: x.sum())
    op.batching("broadcast_all")
    with pytest.raises(mx.TransformError, match="a result lacks the leading batch dimension"):
        mx.vmap(op.wrapper)(np.ones((3, 4), np.float32))
    with pytest.raises(mx.AttributeValueError, match="batching rule 'vectorized' is unknown"):
        op.batching("vectorized")
