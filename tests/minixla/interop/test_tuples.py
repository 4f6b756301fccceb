"""Programs with tuple arguments and results work in every transformation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.tools.command_line import main

_PAIR = "tuple<tensor<f32>, tensor<3xi32>>"
#: (x, (s, n)), y -> (((s,), x * y), n)
NESTED = f"""
func.func private @inner(%t: {_PAIR}) -> {_PAIR} {{ return %t : {_PAIR} }}
func.func @main(%t: tuple<tensor<2xf32>, {_PAIR}>, %y: tensor<2xf32>)
    -> (tuple<tuple<tensor<f32>>, tensor<2xf32>>, tensor<3xi32>) {{
  %0 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<2xf32>, {_PAIR}>) -> tensor<2xf32>
  %1 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2xf32>, {_PAIR}>) -> {_PAIR}
  %2 = call @inner(%1) : ({_PAIR}) -> {_PAIR}
  %3 = stablehlo.get_tuple_element %2[0] : ({_PAIR}) -> tensor<f32>
  %4 = stablehlo.get_tuple_element %2[1] : ({_PAIR}) -> tensor<3xi32>
  %5 = stablehlo.tuple %3 : tuple<tensor<f32>>
  %6 = stablehlo.multiply %0, %y : tensor<2xf32>
  %7 = stablehlo.tuple %5, %6 : tuple<tuple<tensor<f32>>, tensor<2xf32>>
  return %7, %4 : tuple<tuple<tensor<f32>>, tensor<2xf32>>, tensor<3xi32>
}}"""
_X, _S, _N, _Y = np.float32([1, 2]), np.float32(3), np.int32([1, 2, 3]), np.float32([4, 5])
_ARGUMENTS = (_X, (_S, _N)), _Y
_RESULT = ((_S,), _X * _Y), _N
_TWICE = np.stack([_Y, _Y])


def _product(program: Any) -> Any:
    return lambda t, y: program(t, y)[0][1].sum()


def _first(program: Any) -> Any:
    return lambda x, y: program((x, (_S, _N)), y)[0][1]


#: Uses of the program, and their results.
_WAYS = {
    "eager": (lambda p: p(*_ARGUMENTS), _RESULT),
    "lists": (lambda p: p([_X, [_S, _N]], _Y), _RESULT),
    "reference": (lambda p: mx.reference(p)(*_ARGUMENTS), _RESULT),
    "jit": (lambda p: mx.jit(p)(*_ARGUMENTS), _RESULT),
    "jax.jit": (lambda p: jax.jit(p)(*_ARGUMENTS), _RESULT),
    "checkpoint": (lambda p: mx.checkpoint(p)(*_ARGUMENTS), _RESULT),
    "a call in a call": (lambda p: mx.jit(lambda *a: mx.jit(p)(*a))(*_ARGUMENTS), _RESULT),
    "grad": (lambda p: mx.grad(_product(p), 1)(*_ARGUMENTS), _X),
    "grad of a member": (lambda p: mx.grad(lambda x: _first(p)(x, _Y).sum())(_X), _Y),
    "grad in jit": (lambda p: mx.jit(mx.grad(_product(p), 1))(*_ARGUMENTS), _X),
    "jacobian": (lambda p: mx.jacfwd(_first(p))(_X, _Y), np.diag(_Y)),
    "jvp": (lambda p: mx.jvp(lambda x: _first(p)(x, _Y), (_X,), (_X,)), (_X * _Y, _X * _Y)),
    "vmap": (
        lambda p: mx.vmap(p, (None, 0))(_ARGUMENTS[0], _TWICE)[0][1],
        np.stack([_X * _Y, _X * _Y]),
    ),
    "vmap of a member": (
        lambda p: mx.vmap(_first(p), (0, None))(_TWICE, _Y),
        np.stack([_Y * _Y, _Y * _Y]),
    ),
    "cost": (lambda p: mx.cost(p, *_ARGUMENTS).total.flops, 2),
    "cross_check": (lambda p: mx.cross_check(p, *_ARGUMENTS).ok, True),
    "export": (
        lambda p: mx.import_stablehlo(mx.export(p, *_ARGUMENTS))(*_ARGUMENTS),
        _RESULT,
    ),
    "read again": (lambda p: mx.import_stablehlo(p.graph.stablehlo())(*_ARGUMENTS), _RESULT),
    "inner function": (lambda p: p.functions["inner"]((_S, _N)), (_S, _N)),
}


@pytest.mark.parametrize("way", _WAYS)
def test_every_way(way):
    run, expected = _WAYS[way]
    found = run(mx.import_stablehlo(NESTED))
    if not isinstance(expected, (bool, int)):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_tuple_alone_is_the_result():
    program = mx.import_stablehlo(
        "func.func @main(%a: tensor<2xf32>) -> tuple<tensor<2xf32>, tuple<>> {\n"
        "  %0 = stablehlo.tuple : tuple<>\n"
        "  %1 = stablehlo.tuple %a, %0 : tuple<tensor<2xf32>, tuple<>>\n"
        "  return %1 : tuple<tensor<2xf32>, tuple<>>\n}"
    )
    for run in (program, mx.jit(program), mx.reference(program)):
        array, empty = run(_X)
        np.testing.assert_array_equal(array, _X)
        assert empty == ()


_WRONG = {
    "too few members": (((_X,), _Y), r"argument 0 is not a tuple.*\n.*tuple of length 1"),
    "too many members": (((_X, (_S, _N), _Y), _Y), r"argument 0 is not a tuple.*\n.*length 3"),
    "an array": ((_X, _Y), r"argument 0 is not a tuple.*\n.*is a (ndarray|GraphTracer)"),
    "an inner array": (((_X, _S), _Y), r"argument 0\[1\] is not a tuple"),
    "another shape": (((_Y[:1], (_S, _N)), _Y), r"f32\[1\]"),
    "one argument": ((_ARGUMENTS[0],), "1 arguments for 2 inputs"),
}


@pytest.mark.parametrize("arguments, message", _WRONG.values(), ids=_WRONG)
@pytest.mark.parametrize("run", [lambda p: p, mx.jit], ids=["eager", "jit"])
def test_arguments_that_do_not_fit(run, arguments, message):
    with pytest.raises(mx.MinixlaError, match=message):
        run(mx.import_stablehlo(NESTED))(*arguments)


@pytest.mark.parametrize("command", ["run", "grad", "check", "cost"])
def test_command_line(command, tmp_path: Path, capsys):
    """Files contain the leaves of tuples one by one."""
    (tmp_path / "p.mlir").write_text(NESTED)
    for name, array in {"x": _X, "s": _S, "n": _N, "y": _Y}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [] if command == "cost" else [str(tmp_path / f"{name}.npy") for name in "xsny"]
    assert main([command, str(tmp_path / "p.mlir"), *files, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    if command == "run":
        assert [each["values"] for each in told["results"]] == [3, [4, 10], [1, 2, 3]]
