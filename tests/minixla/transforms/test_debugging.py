"""debug_print and debug_callback: when they are called, with what, under every transformation."""

from __future__ import annotations

import gc
import itertools
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, TransformError

X = np.array([0.0, 1.0, 2.0], np.float32)
ROWS = np.stack([X, 2 * X])


@pytest.fixture
def printed(capfd):
    """The lines that a function prints."""

    def lines(function, *args):
        capfd.readouterr()
        jax.block_until_ready(function(*args))
        jax.effects_barrier()
        return capfd.readouterr().out.splitlines()

    return lines


def square(x):
    mx.debug_print("x = {}, sum = {total:.2f}", x, total=x.sum())
    return (x * x).sum()


ONCE = ["x = [0. 1. 2.], sum = 3.00"]
TWICE = [*ONCE, "x = [0. 2. 4.], sum = 6.00"]

CALLS = {
    "eager": (lambda: square(mnp.asarray(X)), ONCE),
    "jit": (lambda: mx.jit(square)(X), ONCE),
    "grad": (lambda: mx.grad(square)(X), ONCE),
    "jit-grad": (lambda: mx.jit(mx.grad(square))(X), ONCE),
    "grad-jit": (lambda: mx.grad(mx.jit(square))(X), ONCE),
    "grad-grad": (lambda: mx.grad(lambda x: mx.grad(square)(x).sum())(X), ONCE),
    "jvp": (lambda: mx.jvp(square, (X,), (X,)), ONCE),
    "jvp-jit": (lambda: mx.jvp(mx.jit(square), (X,), (X,)), ONCE),
    "hessian": (lambda: mx.hessian(square)(X), ONCE),
    "jit-hessian": (lambda: mx.jit(mx.hessian(square))(X), ONCE),
    "vmap": (lambda: mx.vmap(square)(ROWS), TWICE),
    "vmap, axis 1": (lambda: mx.vmap(square, in_axes=1)(ROWS.T), TWICE),
    "vmap-jit": (lambda: mx.vmap(mx.jit(square))(ROWS), TWICE),
    "jit-vmap": (lambda: mx.jit(mx.vmap(square))(ROWS), TWICE),
    "vmap-grad-jit": (lambda: mx.vmap(mx.grad(mx.jit(square)))(ROWS), TWICE),
    "empty vmap": (lambda: mx.vmap(square)(ROWS[:0]), []),
    "checkpoint": (lambda: mx.grad(mx.checkpoint(square))(X), ONCE),
    "checkpoint-jit": (lambda: mx.grad(mx.checkpoint(lambda x: mx.jit(square)(x) * 2))(X), ONCE),
    "reference": (lambda: mx.reference(mx.grad(square))(X), ONCE),
    "reference-jit": (lambda: mx.reference(mx.jit(mx.grad(square)))(X), ONCE),
    "reference-vmap": (lambda: mx.reference(mx.vmap(square))(ROWS), TWICE),
    "jax.jit": (lambda: jax.jit(square)(X), ONCE),
    "jax.grad": (lambda: jax.grad(mx.jit(square))(X), ONCE),
    "jax.jit-grad": (lambda: jax.jit(jax.grad(mx.jit(square)))(X), ONCE),
    "jax.jvp": (lambda: jax.jvp(mx.jit(square), (X,), (X,)), ONCE),
    "jax.vmap": (lambda: jax.vmap(mx.jit(square))(ROWS), TWICE),
    "jax.checkpoint": (lambda: jax.checkpoint(mx.jit(square))(X), ONCE),
    "jax.lax.scan": (lambda: jax.lax.scan(lambda c, x: (c, mx.jit(square)(x)), 0, ROWS), TWICE),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_transformation(name, printed):
    function, expected = CALLS[name]
    assert printed(function) == expected


def test_linearize_prints_when_the_values_are_computed(printed):
    kept = []
    assert printed(lambda: kept.append(mx.linearize(mx.jit(square), X)[1])) == ONCE
    assert printed(kept[0], X) == []


def test_a_pullback_prints_nothing(printed):
    kept = []
    assert printed(lambda: kept.append(mx.vjp(mx.jit(square), X)[1])) == ONCE
    assert printed(kept[0], np.float32(1)) == []


def test_inside_jax_without_arguments(printed):
    def function(x):
        mx.debug_print("hello")
        return x

    compiled = jax.jit(function)
    assert printed(compiled, X) == ["hello"]
    assert printed(compiled, X) == ["hello"], "not only while it is traced"


def test_programs_that_are_run_again_print_again(printed):
    function = mx.jit(square)
    assert printed(function, X) == ONCE
    assert printed(function, 2 * X) == TWICE[1:]


# Control flow.


def branch(x):
    def show(name, factor):
        def function(v):
            mx.debug_print("{} {}", name, v)
            return v * factor

        return function

    return mx.cond(x > 0.5, show("yes", 2), show("no", 3), x)


def loop(x):
    def body(v):
        mx.debug_print("at {}", v)
        return v + 1

    return mx.while_loop(lambda v: v < 3, body, x)


def counted(x):
    def body(i, v):
        mx.debug_print("{}: {}", i, v)
        return v * v

    return mx.fori_loop(0, 3, body, x)


def chain(x):
    def step(carry, element):
        mx.debug_print("{} {}", carry, element)
        return carry + element, carry

    return mx.scan(step, x, X)[0]


def sums(x):
    return mx.map(lambda row: square(row), ROWS * x).sum()


FLOWS = {
    "cond": (branch, 1.0, ["yes 1.0"]),
    "while": (loop, 1.0, ["at 1.0", "at 2.0"]),
    "fori": (counted, 2.0, ["0: 2.0", "1: 4.0", "2: 16.0"]),
    "scan": (chain, 1.0, ["1.0 0.0", "1.0 1.0", "2.0 2.0"]),
    "map": (sums, 1.0, TWICE),
}


FLOW_WAYS = ["eager", "jit", "grad", "jit-grad", "jvp", "jit-checkpoint", "numpy"]


@pytest.mark.parametrize(
    ("how", "name"), [*itertools.product(FLOW_WAYS, FLOWS), ("checkpoint", "cond")]
)
def test_control_flow(name, how, printed):
    function, x, expected = FLOWS[name]
    x = np.float32(x)
    calls = {
        "eager": function,
        "jit": mx.jit(function),
        "grad": mx.grad(function),
        "jit-grad": mx.jit(mx.grad(function)),
        "jvp": lambda x: mx.jvp(function, (x,), (x,)),
        "checkpoint": mx.grad(mx.checkpoint(function)),
        "jit-checkpoint": mx.jit(mx.grad(mx.checkpoint(function))),
        "numpy": mx.reference(mx.grad(function)),
    }
    assert printed(calls[how], x) == expected


BATCHED = {
    "cond": (branch, ["yes 1.0", "yes 2.0", "no 0.0"]),
    "while": (loop, ["at 0.0", "at 1.0", "at 2.0", "at 1.0", "at 2.0", "at 2.0"]),
    "scan": (chain, [f"{c} {e}" for i, e in enumerate(X) for c in X + [0, 0, 1][i]]),
    "jit": (mx.jit(branch), ["yes 1.0", "yes 2.0", "no 0.0"]),
}


BATCH_WAYS = ["vmap", "jit-vmap", "jit-vmap-grad", "numpy"]


@pytest.mark.parametrize(
    ("name", "how"), [*itertools.product(BATCHED, BATCH_WAYS), ("cond", "vmap-grad")]
)
def test_batches_of_control_flow_leave_out_who_takes_no_part(name, how, printed):
    function, expected = BATCHED[name]
    calls = {
        "vmap": mx.vmap(function),
        "jit-vmap": mx.jit(mx.vmap(function)),
        "vmap-grad": mx.vmap(mx.grad(function)),
        "jit-vmap-grad": mx.jit(mx.vmap(mx.grad(function))),
        "numpy": mx.reference(mx.vmap(function)),
    }
    assert printed(calls[how], X) == expected


def test_nested_batches_in_the_order_of_jax(printed):
    def function(show):
        def shown(x, y):
            show("{} {}", x, y)
            return x

        return shown

    args = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(2)
    axes = (0, None)

    def nested(vmap, show):
        return vmap(vmap(function(show), in_axes=axes))

    expected = printed(nested(jax.vmap, jax.debug.print), *args)
    assert len(expected) == 6
    assert printed(nested(mx.vmap, mx.debug_print), *args) == expected
    assert printed(mx.jit(nested(mx.vmap, mx.debug_print)), *args) == expected
    assert printed(mx.reference(nested(mx.vmap, mx.debug_print)), *args) == expected


@pytest.mark.parametrize("wrap", [lambda f: f, mx.jit, mx.reference], ids=["eager", "jit", "numpy"])
def test_nested_batches_of_branches(wrap, printed):
    values = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
    lines = printed(wrap(mx.vmap(mx.vmap(branch))), values)
    assert sorted(lines) == ["no 0.0"] * 3 + ["yes 1.0", "yes 2.0", "yes 3.0"]


def test_a_batch_inside_a_branch_of_a_batch(printed):
    def inner(x):
        return mx.cond(x.sum() > 4, mx.vmap(branch), lambda v: v, x)

    assert printed(mx.vmap(inner), ROWS) == ["yes 2.0", "yes 4.0", "no 0.0"]


def test_what_does_not_differ_over_a_batch_is_printed_once(printed):
    def function(x):
        mx.debug_print("outside")

        def body():
            mx.debug_print("inside {}", 3)
            return x

        return mx.cond(x > 0.5, body, lambda: x)

    for wrap in (mx.vmap, lambda f: mx.jit(mx.vmap(f)), lambda f: mx.reference(mx.vmap(f))):
        assert printed(wrap(function), X) == ["outside", "inside 3"]


def test_a_loop_of_unknown_length_has_a_reverse_derivative(printed):
    def function(x, n):
        def body(_, v):
            mx.debug_print("v = {}", v)
            return v * v

        return mx.fori_loop(0, n, body, x)

    gradient = []
    lines = printed(lambda: gradient.append(mx.grad(function)(np.float32(2), np.int32(3))))
    assert lines == ["v = 2.0", "v = 4.0", "v = 16.0"]
    assert gradient[0] == 8 * 2.0**7


# Custom rules.


def test_inside_custom_rules(printed):
    @mx.custom_vjp
    def function(x):
        mx.debug_print("primal")
        return x

    def forward(x):
        mx.debug_print("forward {}", x)
        return x, x

    def backward(x, cotangent):
        mx.debug_print("backward {}", cotangent)
        return (cotangent * x,)

    function.defvjp(forward, backward)
    x = np.float32(2)
    for wrap in (lambda f: f, mx.jit, mx.reference):
        assert printed(wrap(function), x) == ["primal"]
        assert printed(wrap(mx.grad(function)), x) == ["forward 2.0", "backward 1.0"]


# Devices.


def mesh():
    return jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


def show_and_double(x):
    mx.debug_print("{}", x)
    return 2 * x


def test_sharded_arguments_are_printed_whole(printed):
    x = np.arange(8, dtype=np.float32)
    sharded = jax.device_put(x, NamedSharding(mesh(), PartitionSpec("d")))
    assert printed(mx.jit(show_and_double), sharded) == [str(x)]
    assert printed(mx.jit(mx.grad(square)), sharded) == [f"x = {x}, sum = 28.00"]


def test_each_device_prints_its_part(printed):
    x = np.arange(8, dtype=np.float32)
    spec = PartitionSpec("d")
    mapped = jax.shard_map(mx.jit(show_and_double), mesh=mesh(), in_specs=spec, out_specs=spec)
    expected = [str(part) for part in x.reshape(4, 2)]
    assert sorted(printed(jax.jit(mapped), x)) == expected
    assert sorted(printed(mx.pmap(show_and_double), x.reshape(4, 2))) == expected
    ours = mx.shard_map(mx.jit(show_and_double), mesh=mesh(), in_specs=spec, out_specs=spec)
    for function in (ours, mx.jit(ours)):
        assert sorted(printed(function, x)) == expected
    loop = mx.jit(lambda x: mx.fori_loop(0, 2, lambda _, v: ours(v) / 2, x))
    assert sorted(printed(loop, x)) == sorted(2 * expected)


# Order.


def test_one_program_prints_in_order(printed):
    def function(x):
        for index in range(20):
            mx.debug_print("{} {}", index, x)
        return x

    assert printed(mx.jit(function), 1.0) == [f"{index} 1.0" for index in range(20)]


def test_ordered_prints_of_several_programs(printed):
    @mx.jit
    def function(x):
        mx.debug_print("{}", x, ordered=True)
        return x * 2

    def several():
        for index in range(20):
            function(index)

    assert printed(several) == [str(index) for index in range(20)]


# Arguments.


def test_what_is_printed(printed):
    def function(x):
        mx.debug_print("{0} {0.shape} {kind} {tree}", x, kind="text", tree={"a": [x[0], None]})
        mx.debug_print("{x!r} {y:>5.1f} {{}}", x=x.astype("bf16"), y=x[1])
        mx.debug_print("{} {} {}", 1, 2.5, True)
        mx.debug_print("{}", ops.tuple([x, x[0]]))
        return x

    expected = [
        "[0. 1. 2.] (3,) text {'a': [array(0., dtype=float32), None]}",
        "array([0, 1, 2], dtype=bfloat16)   1.0 {}",
        "1 2.5 True",
        "(array([0., 1., 2.], dtype=float32), array(0., dtype=float32))",
    ]
    for wrap in (mx.jit, mx.reference):
        assert printed(wrap(function), X) == expected


def test_printing_options_are_those_of_the_line(printed):
    def function(x):
        with np.printoptions(precision=2):
            mx.debug_print("{}", x)
        return x

    assert printed(mx.jit(function), X / 3) == ["[0.   0.33 0.67]"]


def test_graphs_with_prints():
    graph = mx.make_graph(square)(X)
    assert graph == mx.make_graph(square)(X)
    assert graph.has_side_effect
    assert 'custom_call_target="minixla.debug_callback"' in str(graph)
    assert 'call_target_name = "minixla.debug_callback"' in graph.stablehlo()
    silent = graph.silent()
    assert not silent.has_side_effect
    assert len(silent.instructions) == len(graph.instructions) - 1
    assert silent.silent() is silent
    nested = mx.make_graph(mx.vmap(mx.grad(mx.jit(branch))))(X)
    assert nested.has_side_effect and not nested.silent().has_side_effect


WRONG_FORMATS = [
    (("{} {}", 1), "a field has no argument"),
    (("{}", 1, 2), "no field shows argument 1"),
    (("x = 3.0", 1), "no field shows argument 0"),
    (("{name}", 1), "a field has no argument: 'name'"),
    (("{", 1), "Single '{' encountered"),
    ((3, 1), "not an f-string"),
]


@pytest.mark.parametrize(("args", "problem"), WRONG_FORMATS, ids=str)
def test_formats_that_do_not_fit(args, problem):
    with pytest.raises(AttributeValueError) as caught:
        mx.debug_print(*args)
    for phrase in ("debug_print: the format does not", problem, "test_debugging.py", "not an"):
        assert phrase in str(caught.value)


# debug_callback.


@pytest.mark.parametrize("wrap", [lambda f: f, mx.jit, mx.reference], ids=["eager", "jit", "numpy"])
def test_callbacks_get_arrays_and_what_else_they_are_given(wrap):
    seen = []

    def callback(tree, flag, *, name):
        assert isinstance(tree["x"], np.ndarray)
        seen.append((tree["x"].tolist(), tree["n"].dtype.name, flag, name))
        return "dropped"

    def function(x):
        tree = {"x": x * 2, "n": mnp.asarray(np.int8(3)), "none": None}
        assert mx.debug_callback(callback, tree, "flag", name=len) is None
        return x

    wrap(mx.grad(lambda x: function(x).sum()))(X)
    jax.effects_barrier()
    assert seen == [([0, 2, 4], "int8", "flag", len)]


def test_callbacks_without_arguments():
    seen = []
    mx.jit(lambda x: mx.debug_callback(seen.append, 1) or x)(1.0)
    mx.debug_callback(lambda: seen.append(2))
    jax.effects_barrier()
    assert seen == [1, 2]


@pytest.mark.parametrize("transform", [lambda f: f, mx.make_graph, mx.vmap, mx.reference])
def test_callbacks_are_not_kept_alive(transform):
    def used():
        def callback(x):
            pass

        transform(lambda x: mx.debug_callback(callback, x))(X)
        return weakref.ref(callback)

    alive = used()
    gc.collect()
    assert alive() is None


def test_errors_of_callbacks():
    def callback(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.debug_callback(callback, X)
    with pytest.raises(TransformError, match="debug_callback: expected a function, got str"):
        mx.debug_callback("text", X)


def test_jax_arrays_and_numbers(printed):
    assert printed(lambda: mx.debug_print("{} {}", jnp.ones(2), 0.5)) == ["[1. 1.] 0.5"]
