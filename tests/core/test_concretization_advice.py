"""What to write instead of a question that a traced value cannot answer: the advice works."""

from __future__ import annotations

import cmath
import linecache
import math
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.concretization_advice import OF_MATH

NAMES: dict[str, Any] = {
    "A": np.eye(2, dtype=np.float32),
    "cmath": cmath,
    "jax": jax,
    "items": [1.0, 2.0, 3.0],
    "math": math,
    "mx": mx,
    "np": np,
    "table": np.arange(4.0, dtype=np.float32),
    "y": np.float32(0.5),
}


def function_of(program: str) -> Any:
    """A function of `x` and `n`, a float and an integer, with a body; the source is known."""
    indented = "\n".join(f"    {line}" for line in program.splitlines())
    text = f"def function(x, n, v):\n{indented}\n"
    file = f"<{program}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = dict(NAMES)
    exec(compile(text, file, "exec"), names)
    return names["function"]


ARGUMENTS = (np.float32(1.5), np.int32(2), np.ones(4, np.float32))

# A program, the expression that asks, what the message advises to write, and a value that this has.
WRITE = [
    ("return math.sin(x)", "math.sin(x)", "mx.numpy.sin(x)", math.sin(1.5)),
    ("return math.atan2(x, 2.0)", "", "mx.numpy.atan2(x, 2.0)", math.atan2(1.5, 2)),
    ("return math.log(x, 2.0)", "", "mx.numpy.log(x) / mx.numpy.log(2.0)", math.log(1.5, 2)),
    ("return cmath.exp(x)", "", "mx.numpy.exp(x)", math.exp(1.5)),
    ("from math import sqrt\nreturn sqrt(x * x)", "", "mx.numpy.sqrt(x * x)", 1.5),
    ("return table[n]", "table[n]", "mx.numpy.asarray(table)[n]", 2.0),
    ("return items[n]", "items[n]", "mx.numpy.asarray(items)[n]", 3.0),
    ("return items[n + 0]", "", "mx.numpy.asarray(items)[n + 0]", 3.0),
    ("return np.asarray(x)", "np.asarray(x)", "mx.numpy.asarray(x)", 1.5),
    ("return np.array(x)", "", "mx.numpy.array(x)", 1.5),
    ("return 1.0 if x > 1 else y", "x > 1", "mx.numpy.where(x > 1, 1.0, y)", 1.0),
    ("return x > 1 and x < 2", "", "mx.numpy.logical_and(x > 1, x < 2)", True),
    ("return x > 2 or x < 1", "", "mx.numpy.logical_or(x > 2, x < 1)", False),
    ("return not x > 1", "not x > 1", "mx.numpy.logical_not(x > 1)", False),
    ("return 1 < x < 2", "1 < x < 2", "(1 < x) & (x < 2)", True),
    ("return x in items", "x in items", "mx.numpy.isin(x, items)", False),
    ("return n not in items", "", "mx.numpy.isin(n, items, invert=True)", False),
    ("return max(x, y)", "max(x, y)", "mx.numpy.maximum(x, y)", 1.5),
    ("return min(x, y)", "", "mx.numpy.minimum(x, y)", 0.5),
    ("return max([x, y])", "", "mx.numpy.max(mx.numpy.asarray([x, y]))", 1.5),
    ("return any([x > 2, x > 1])", "", "mx.numpy.any(mx.numpy.asarray([x > 2, x > 1]))", True),
    (
        "return all(x > z for z in items)",
        "all((x > z for z in items))",
        "mx.numpy.all(mx.numpy.asarray([x > z for z in items]))",
        False,
    ),
    (
        "return sorted([x, y])",
        "",
        "mx.numpy.sort(mx.numpy.asarray([x, y]))",
        [0.5, 1.5],
    ),
    ("return bool(x)", "bool(x)", "x != 0", True),
    ("return bool(x > 0)", "bool(x > 0)", "(x > 0) != 0", True),
]


def refusal(program: str, transform: Any = mx.jit) -> str:
    with pytest.raises(mx.MinixlaError) as caught:
        transform(function_of(program))(*ARGUMENTS)
    assert f"called at <{program.splitlines()[0]}"[:20] in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("program", "asked", "instead", "value"), WRITE, ids=[row[0] for row in WRITE]
)
def test_what_is_advised_can_be_written(program: str, asked: str, instead: str, value: Any) -> None:
    message = refusal(program)
    if asked:
        assert f"\n  required by {asked}\n" in message
    assert instead in message
    found = mx.jit(function_of(f"return {instead}"))(*ARGUMENTS)
    np.testing.assert_allclose(found, value, rtol=1e-5)


# A program, and phrases of the message.
ADVICE = [
    ("return float(x)", ["a Python float", "Remove float()", "x.astype(float)"]),
    (
        "return int(x * 2)",
        ["a Python int", "Remove int()", "(x * 2).astype(int)", "static_argnums"],
    ),
    ("return np.float32(x)", ["Remove np.float32()", "x.astype(np.float32)"]),
    ("return np.ascontiguousarray(v)", ["Write mx.numpy.asarray(v)."]),
    ("return complex(x)", ["Remove complex()", "x.astype(complex)"]),
    (
        "for i in range(n): pass",
        ["mx.fori_loop(0, n, body_fun, init_val)", "static_argnums"],
    ),
    ("for i in range(1, n): pass", ["mx.fori_loop(1, n, body_fun, init_val)"]),
    ("return items[:n]", ["mx.ops.dynamic_slice(mx.numpy.asarray(items), ...)"]),
    ("return [0] * n", ["required by [0] * n", "static_argnums", "mx.fori_loop"]),
    ("return f'{x:.3f}'", ["a string was required", 'mx.debug_print("{:.3f}", x)']),
    ("return f'loss {x:.3f} of {n} {{}}'", ['mx.debug_print("loss {:.3f} of {} {{}}", x, n)']),
    ("return '{:.3f}'.format(x)", ['mx.debug_print("{:.3f}", x)']),
    ("return '%.3f' % x", ['mx.debug_print("{:.3f}", x)']),
    ("return '%g %.1f' % (x, y)", ['mx.debug_print("{:g} {:.1f}", x, y)']),
    ("return format(x, '.3f')", ['mx.debug_print("{}", x)']),
    ("return x.item()", ["a Python scalar", "Remove .item()", "mx.debug_print"]),
    ("return v.tolist()", ["a list", "Remove .tolist()"]),
    (
        "if x > 1: return x",
        ["mx.cond(x > 1, true_fun, false_fun, *operands)", "mx.numpy.where(x > 1, x, y)"],
    ),
    ("if not x > 1: return x", ["mx.cond(mx.numpy.logical_not(x > 1), true_fun"]),
    ("if x in items: return x", ["mx.cond(mx.numpy.isin(x, items), true_fun"]),
    ("if 0 < x < 3: return x", ["mx.cond((0 < x) & (x < 3), true_fun"]),
    (
        "if x > 1 and y and n: return x",
        ["logical_and(mx.numpy.logical_and(x > 1, y), n), t"],
    ),
    ("if print(x > 1 or y): return x", ["Write mx.numpy.logical_or(x > 1, y)."]),
    ("if mx.numpy.any(v > 1): return x", ["mx.cond(mx.numpy.any(v > 1), true_fun"]),
    ("while x > 1: x = x - 1", ["mx.while_loop(cond_fun, body_fun, init_val)"]),
    ("assert x > 1, 'small'", ["Return x > 1, and assert it outside"]),
    ("return [z for z in items if x > z]", ["mx.numpy.where", "mask"]),
    ("v[0] = 1", ["Use the updated copy: v = v.at[0].set(1)"]),
    ("v[n] += y", ["v = v.at[n].set(v[n] + y)"]),
    ("w = np.ones(4)\nw += v", ["write w = w + v"]),
    ("return v[v > 0]", ["mask", "mx.numpy.where(mask, x, y)"]),
    ("return mx.numpy.zeros(n)", ["zeros: shape must be known", "static_argnums"]),
    ("w = table.copy()\nw[n] = y", ["required by w[n]", "w = mx.numpy.asarray(w).at[n].set(y)"]),
    ("return np.array2string(v)", ["mx.debug_print"]),
    ("return np.add.reduceat(v, [0, 1])", ["reduceat", "jax.numpy or mx.ops"]),
]


@pytest.mark.parametrize(("program", "phrases"), ADVICE, ids=[row[0] for row in ADVICE])
def test_advice(program: str, phrases: list[str]) -> None:
    message = refusal(program)
    for phrase in phrases:
        assert phrase in message


TRANSFORMS = {
    "jit": (mx.jit, "only the shape f32[] is known", "static_argnums"),
    "grad": (mx.grad, "is being differentiated", "mx.stop_gradient"),
    "jvp": (
        lambda f: lambda x, n, v: mx.jvp(lambda x: f(x, n, v), (x,), (x,)),
        "is being differentiated",
        "mx.stop_gradient",
    ),
    "vmap": (
        lambda f: lambda x, n, v: mx.vmap(f, in_axes=(0, None, None))(v, n, v),
        "differs between batch elements",
        "in_axes=None",
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transformation_has_the_questions_advice(name: str) -> None:
    transform, problem, otherwise = TRANSFORMS[name]
    message = refusal("return math.sin(x)", transform)
    for phrase in (problem, "required by math.sin(x)", "Write mx.numpy.sin(x).", otherwise):
        assert phrase in message


def test_an_element_of_a_numpy_array_that_is_assigned() -> None:
    """NumPy raises an error of its own from ours."""
    with pytest.raises(ValueError, match="setting an array element") as caught:
        mx.jit(function_of("w = table.copy()\nw[0] = x\nreturn w"))(*ARGUMENTS)
    cause = caught.value.__cause__
    assert isinstance(cause, mx.ConcretizationError)
    assert "Write w = mx.numpy.asarray(w).at[0].set(x)." in str(cause)


def test_advice_without_a_source() -> None:
    names = dict(NAMES)
    exec("def function(x):\n    return math.sin(x)", names)
    with pytest.raises(mx.ConcretizationError) as caught:
        mx.jit(names["function"])(1.0)
    assert "required by" not in str(caught.value)
    assert "Compute with functions of mx.numpy instead of Python's" in str(caught.value)


def test_the_line_of_a_transformed_instruction_does_not_ask() -> None:
    @mx.custom_jvp
    def function(x: Any) -> Any:
        return x * 2

    @function.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return function(*primals), tangents[0] * math.cos(primals[0])

    with pytest.raises(mx.ConcretizationError) as caught:
        mx.jit(mx.grad(function))(1.0)
    assert "required by math.cos(primals[0])" in str(caught.value)
    assert "Write mx.numpy.cos(primals[0])." in str(caught.value)


# Functions of math: each has the same in mx.numpy, or a form of its own, or none.
WITHOUT = {"comb", "perm", "ulp"}
PUBLIC = {f"{m.__name__}.{n}" for m in (math, cmath) for n in dir(m) if callable(getattr(m, n))}
FUNCTIONS = sorted(name for name in PUBLIC if not name.split(".")[1].startswith("_"))
EXACT = {"factorial": (4,), "gcd": (4, 6), "isqrt": (10,), "lcm": (4, 6), "ldexp": (1.5, 2)}
SPECIAL = {
    "acosh": (1.5,),
    "dist": ((1.0, 2.0), (4.0, 6.0)),
    "fma": (0.5, 0.25, 2.0),
    "fsum": ((1.0, 2.0),),
    "prod": ((1.0, 2.0),),
    "rect": (1.5, 0.5),
    "sumprod": ((1.0, 2.0), (4.0, 6.0)),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_math_have_a_form(function: str) -> None:
    module, name = function.split(".")
    if name in WITHOUT:
        assert name not in OF_MATH
        return
    if name in OF_MATH:
        count = 2 if "{1}" in OF_MATH[name] else 1
        given = EXACT.get(name) or SPECIAL.get(name) or (0.5, 0.25)[:count]
        arrays = [f"mx.numpy.asarray({x})" if isinstance(x, tuple) else repr(x) for x in given]
        form = OF_MATH[name].format(*arrays)
        expected = getattr({"math": math, "cmath": cmath}[module], name)(*given)
        np.testing.assert_allclose(eval(form, dict(NAMES)), expected, rtol=1e-5, err_msg=form)
    else:
        assert name in mx.numpy.__all__


NOT_IN_JAX = [
    name
    for name in dir(np)
    if (hasattr(getattr(np, name), "_implementation") or isinstance(getattr(np, name), np.ufunc))
    and name not in mx.numpy.__all__
    and not hasattr(jax.numpy, name)
]


def test_advice_for_functions_that_jax_has_not_either() -> None:
    from minixla.numpy.array_methods import _INSTEAD

    assert sorted(_INSTEAD) == NOT_IN_JAX
