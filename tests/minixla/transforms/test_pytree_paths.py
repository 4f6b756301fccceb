"""Errors name the place in the user's pytree: arguments, results, what goes through loops."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.engine.float0 import places
from minixla.transforms.arguments import Arguments
from minixla.transforms.pytree_paths import other_structure, parameter_names

X = np.ones(3, np.float32)
FLOAT0 = np.zeros((), jax.dtypes.float0)
XS = np.ones((2, 3), np.float32)


class State(NamedTuple):
    weights: Any
    count: Any


def function(parameters: Any, *rest: Any) -> Any:
    return parameters["w"][0] * 2.0


def on_member(x: Any) -> Any:
    """Calls of jitted functions inside others."""
    return x * mx.jit(function)(on_member.argument)  # type: ignore[attr-defined]  # a function has any


def nested(argument: Any) -> Any:
    on_member.argument = argument  # type: ignore[attr-defined]  # a function has any
    return mx.vmap(on_member)(X)


# Each is given an argument `parameters` whose leaf `['w'][0]` is wrong.
TRANSFORMS = {
    "jit": mx.jit(function),
    "jit, nested": nested,
    "jit, static": lambda p: mx.jit(lambda flag, parameters: 1.0, static_argnums=0)("on", p),
    "jit, keyword": lambda p: mx.jit(lambda *, parameters: 1.0)(parameters=p),
    "grad": mx.grad(function),
    "grad, second": lambda p: mx.grad(lambda x, parameters: 1.0, argnums=1)("on", p),
    "vjp": lambda p: mx.vjp(function, p),
    "jvp": lambda p: mx.jvp(function, (p,), (p,)),
    "linearize": lambda p: mx.linearize(function, p),
    "jacfwd": mx.jacfwd(function),
    "jacrev": mx.jacrev(function),
    "vmap": mx.vmap(function),
    "pmap": mx.pmap(function),
    "checkpoint": mx.checkpoint(function),
    "custom_jvp": lambda p: with_rule(mx.custom_jvp)(p),
    "custom_vjp": lambda p: with_rule(mx.custom_vjp)(p),
    "make_graph": mx.make_graph(function),
    "cond": lambda p: mx.cond(True, function, function, p),
    "switch": lambda p: mx.switch(1, [function, function], p),
}
NO_ARRAYS = [
    "text",
    object(),
    np.datetime64("2026-01-01"),
    np.array(["2026-01-01"], "M8[D]"),
    np.array(["text"]),
    np.array([None, 1], object),
]


def with_rule(kind: Any) -> Any:
    wrapped = kind(function)
    wrapped.defjvp(function) if kind is mx.custom_jvp else wrapped.defvjp(function, function)
    return wrapped


@pytest.mark.parametrize("value", NO_ARRAYS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_argument_that_is_no_array_is_named(name: str, value: Any) -> None:
    with pytest.raises(mx.ShapeError) as caught:
        TRANSFORMS[name]({"w": [value]})
    assert isinstance(caught.value, TypeError)
    message = str(caught.value)
    assert message.startswith(f"{name.split(',')[0]}: argument parameters['w'][0] ")
    problem = "of type" if not isinstance(value, (np.ndarray, np.generic)) else "has elements of"
    assert f"parameters['w'][0] {problem}" in message
    assert "test_pytree_paths.py" in message


@pytest.mark.parametrize("number", [2**70, -(2**31) - 1])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_number_that_is_too_large_is_named(name: str, number: int) -> None:
    with pytest.raises(mx.IntegerRangeError) as caught:
        TRANSFORMS[name]({"w": [number]})
    assert isinstance(caught.value, OverflowError)
    assert isinstance(caught.value, ValueError)
    start = f"{name.split(',')[0]}: argument parameters['w'][0], a Python int, does not fit s32.\n"
    assert str(caught.value).startswith(f"{start}  {number}\n")


def test_a_tuple_of_xla_is_no_argument_of_a_compiled_function() -> None:
    pair = mx.ops.tuple([X, X])
    with pytest.raises(mx.ShapeError, match=r"^jit: argument parameters\['w'\]\[0\] of type Tuple"):
        mx.jit(function)({"w": [pair]})
    with pytest.raises(KeyError, match="mine"):  # inside of others it is
        mx.make_graph(lambda x: mx.jit(raising)(mx.ops.tuple([x])))(X)


def test_keys_of_jax_reach_custom_rules_that_do_not_compute_with_them() -> None:
    wrapped = mx.custom_jvp(lambda key, x: x * 2)
    wrapped.defjvp(lambda primals, tangents: (wrapped(*primals), tangents[1] * 2))
    assert wrapped(jax.random.key(0), 1.5) == 3.0


def raising(x: Any) -> Any:
    raise KeyError("mine")


@pytest.mark.parametrize("error", [TypeError, ValueError, KeyError])
def test_errors_of_the_function_itself_stay(error: type[Exception]) -> None:
    def raises(x: Any) -> Any:
        raise error("mine")

    with pytest.raises(error, match="mine"):
        mx.jit(raises)({"a": X, "b": 1, "c": 2.5, "d": None})


def stepped(carry: Any, x: Any) -> Any:
    return {"w": [carry["w"][0], carry["w"][1][:2]]}, None


CARRY = {"w": [X, X]}
STATE = State(X, {"b": 1})

# A call, and what its message holds.
MESSAGES = {
    "scan, carry's shape": (
        lambda: mx.scan(lambda carry, x: stepped(carry, x), CARRY, None, 2),
        "scan: f must return carry['w'][1] with the shape that it takes.",
    ),
    "scan, carry's structure": (
        lambda: mx.scan(lambda carry, x: ({"v": [X, X]}, None), CARRY, None, 2),
        "it takes the carry['w'][0], it returns none",
    ),
    "scan, no array": (
        lambda: mx.scan(lambda carry, x: (carry, None), {"w": [X, "text"]}, None, 2),
        "scan: carry['w'][1] of type str is not an array.",
    ),
    "scan, elements": (
        lambda: mx.scan(lambda carry, x: (carry, None), X, {"a": X, "b": "text"}),
        "scan: xs['b'] of type str is not an array.",
    ),
    "scan, scalar element": (
        lambda: mx.scan(lambda carry, x: (carry, None), X, {"a": X, "b": 1.0}),
        "  xs['b']: f32[]",
    ),
    "scan, lengths": (
        lambda: mx.scan(lambda carry, x: (carry, None), X, {"a": X, "b": X[:2]}),
        "  xs['a']: f32[3]\n  xs['b']: f32[2]\n",
    ),
    "scan, result": (
        lambda: mx.scan(lambda carry, x: (carry, {"y": "text"}), X, None, 2),
        "the result[1]['y'] of type str is not an array.",
    ),
    "map": (
        lambda: mx.map(lambda x: x["a"], {"a": X, "b": 1.0}, batch_size=2),
        "  xs['b']: f32[]",
    ),
    "while_loop": (
        lambda: mx.while_loop(
            lambda state: True, lambda state: state._replace(weights=state.weights[:2]), STATE
        ),
        "while_loop: body_fun must return state.weights with the shape that it takes.",
    ),
    "while_loop, structure": (
        lambda: mx.while_loop(
            lambda state: True, lambda state: state._replace(count=state.count["b"]), STATE
        ),
        "  it takes state.count['b'], it returns none\n  it returns state.count, it takes none\n",
    ),
    "fori_loop": (
        lambda: mx.fori_loop(0, 3, lambda i, state: {"w": state["w"][:2]}, {"w": X}),
        "fori_loop: body_fun must return state['w'] with the shape that it takes.",
    ),
    "fori_loop, no array": (
        lambda: mx.fori_loop(0, 3, lambda i, state: state, {"w": "text"}),
        "fori_loop: state['w'] of type str is not an array.",
    ),
    "fori_loop, structure": (
        lambda: mx.fori_loop(0, 3, lambda i, state: {"v": X}, {"w": X}),
        "  it takes state['w'], it returns none\n  it returns state['v'], it takes none\n",
    ),
    "cond, shapes": (
        lambda: mx.cond(True, lambda: {"a": X, "b": X}, lambda: {"a": X, "b": X[:2]}),
        "cond: the branches must return the same shape for the result['b'].",
    ),
    "cond, structures": (
        lambda: mx.cond(True, lambda: {"a": X, "b": X}, lambda: {"a": X}),
        "true_fun the result['b'], false_fun none",
    ),
    "associative_scan": (
        lambda: mx.associative_scan(lambda a, b: {"m": a["m"], "v": b["v"][:0]}, {"m": X, "v": X}),
        "it returns elems['m'] f32[1], elems['v'] f32[0]",
    ),
    "grad of an integer": (
        lambda: mx.grad(lambda parameters: 1.0)({"w": [X, 1]}),
        "grad: argument parameters['w'][1] of type s32 has no gradient.",
    ),
    "jacfwd of an integer": (
        lambda: mx.jacfwd(lambda parameters: 1.0)({"w": [X, 1]}),
        "jacfwd: argument parameters['w'][1] of type s32 has no Jacobian.",
    ),
    "jacrev, result": (
        lambda: mx.jacrev(lambda x: {"n": x > 0})(X),
        "jacrev: the result['n'] of type pred has no Jacobian.",
    ),
    "vjp, cotangent": (
        lambda: mx.vjp(lambda x: {"a": x, "b": x}, X)[1]({"a": X, "b": X[:2]}),
        "vjp: the cotangent of the result['b'] does not match it.",
    ),
    "vjp, cotangent's structure": (
        lambda: mx.vjp(lambda x: {"a": x, "b": x}, X)[1]({"a": X, "c": X}),
        "  cotangent has ['c'], result has none\n",
    ),
    "jvp, tangent": (
        lambda: mx.jvp(function, ({"w": [X]},), ({"w": [X[:2]]},)),
        "jvp: the tangent of argument parameters['w'][0] does not match it.",
    ),
    "jvp, tangent that is no array": (
        lambda: mx.jvp(function, ({"w": [X]},), ({"w": ["text"]},)),
        "jvp: the tangent of argument parameters['w'][0] of type str is not an array.",
    ),
    "jvp, result": (
        lambda: mx.jvp(lambda x: {"a": [x, "text"]}, (X,), (X,)),
        "jvp: the result['a'][1] of type str is not an array.",
    ),
    "grad, result": (
        lambda: mx.vjp(lambda x: {"a": [x, "text"]}, X),
        "vjp: the result['a'][1] of type str is not an array.",
    ),
    "linearize, tangent": (
        lambda: mx.linearize(function, {"w": [X]})[1]({"w": [X[:2]]}),
        "linearize: the tangent of argument parameters['w'][0] does not match it.",
    ),
    "jit, result": (
        lambda: mx.jit(lambda x: {"a": [x, "text"]})(X),
        "the result['a'][1] of type str is not an array.",
    ),
    "make_graph, result": (
        lambda: mx.make_graph(lambda x: {"a": [x, "text"]})(X),
        "the result['a'][1] of type str is not an array.",
    ),
    "vmap, axis": (
        lambda: mx.vmap(function)({"w": [X, 1.0]}),
        "  argument parameters['w'][1] is f32[]\n",
    ),
    "vmap, sizes": (
        lambda: mx.vmap(function)({"w": [X, XS]}),
        "  argument parameters['w'][1]: f32[2,3], axis 0 of size 2\n",
    ),
    "vmap, result": (
        lambda: mx.vmap(lambda x: {"a": [x, "text"]})(X),
        "vmap: the result['a'][1] of type str is not an array.",
    ),
    "vmap, out_axes": (
        lambda: mx.vmap(lambda x: {"a": [1.0, x]}, out_axes=None)(X),
        "  the result['a'][1] is BatchTracer<f32[]>\n",
    ),
    "vmap, out_axes beside float0": (
        lambda: mx.vmap(lambda x: {"a": [FLOAT0, x]}, out_axes=None)(X),
        "  the result['a'][1] is BatchTracer<f32[]>\n",
    ),
    "pmap, float0": (
        lambda: mx.pmap(lambda z, x: x)(np.zeros(1, jax.dtypes.float0), XS[:1]),
        "pmap: argument[0][0] has elements of type",
    ),
    "pmap, sizes": (
        lambda: mx.pmap(function)({"w": [X, XS]}),
        "  argument parameters['w'][1]: f32[2,3], axis 0 of size 2\n",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_name_the_place(name: str) -> None:
    call, phrase = MESSAGES[name]
    with pytest.raises(mx.MinixlaError) as caught:
        call()
    assert phrase in str(caught.value)
    assert "test_pytree_paths.py" in str(caught.value)
    assert not re.search(r"\b(array|result|leaf) \d", str(caught.value))


def test_places_of_leaves() -> None:
    assert places("state", STATE) == ["state.weights", "state.count['b']"]
    assert places("x", 1.0) == ["x"]
    assert places("x", None) == []


NAMES = [
    (lambda x, y=1: x, 2, ["x", "y"]),
    (lambda x, *rest: x, 3, ["x", "rest[0]", "rest[1]"]),
    (lambda x, *, y: x, 1, ["x"]),
    (print, 2, ["args[0]", "args[1]"]),
    (type, 1, ["argument[0]"]),
]


@pytest.mark.parametrize(("fun", "count", "names"), NAMES, ids=[str(row[2]) for row in NAMES])
def test_names_of_parameters(fun: Any, count: int, names: list[str]) -> None:
    assert parameter_names(fun, count) == names


def test_places_of_arguments_leave_static_ones_out() -> None:
    given = "test", lambda flag, x, **named: x, ("on", [1, 2]), {"z": 1, "a": 2}, 0
    found = Arguments.besides(*given).where()
    assert found == ["argument x[0]", "argument x[1]", "argument a", "argument z"]
    given = "test", lambda x, flag: x, (1, "on"), None, (-1,)
    assert Arguments.besides(*given).where() == ["argument x"]


def test_differences_are_few() -> None:
    one, other = jax.tree.structure(list(range(9))), jax.tree.structure({"a": 1})
    error = other_structure("f", "they differ", "x", ("one", one), ("two", other), "")
    assert str(error).splitlines()[:-1] == [
        "f: they differ.",
        f"  one {one}",
        f"  two {other}",
        "  one x[0], two none",
        "  one x[1], two none",
        "  one x[2], two none",
        "  two x['a'], one none",
    ]
