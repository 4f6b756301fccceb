"""Errors show the user's frames and their message, and nothing of the framework's."""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla import ops
from minixla.core.source import is_user_file
from minixla.core.tracebacks import api_boundary

X = np.ones(3, np.float32)
XS = np.ones((2, 3), np.float32)
NOTE = "(Frames of minixla and JAX are hidden; MINIXLA_TRACEBACK_FILTERING=off shows them.)"


@pytest.fixture(autouse=True)
def filtering(monkeypatch: pytest.MonkeyPatch) -> None:
    """As outside of these tests, which have JAX's filtering off."""
    monkeypatch.setenv("MINIXLA_TRACEBACK_FILTERING", "on")


def misfit(x: Any) -> Any:
    return x + np.ones(4, np.float32)


def loop_body(_: Any, x: Any) -> Any:
    return misfit(x)


def to_scalar(x: Any) -> Any:
    return misfit(x).sum()


def with_rule(kind: Any) -> Any:
    function = kind(misfit)
    function.defjvp(misfit) if kind is mx.custom_jvp else function.defvjp(misfit, misfit)
    return function


def pulled_wrongly() -> Any:
    _, pullback = mx.vjp(lambda x: x * 2, X)
    return pullback(np.ones(4, np.float32))


def pushed_wrongly() -> Any:
    _, push = mx.linearize(lambda x: x * 2, X)
    return push(np.ones(4, np.float32))


PROGRAM_OF_ONE = mx.import_stablehlo(mx.make_graph(ops.tanh)(X).stablehlo())

# Each calls a public function which fails, in a function of the user's or by itself.
CALLS: dict[str, Callable[[], Any]] = {
    "jit": lambda: mx.jit(misfit)(X),
    "jit lower": lambda: mx.jit(misfit).lower(X),
    "jit graph": lambda: mx.jit(misfit).graph(X),
    "jit of grad": lambda: mx.jit(mx.grad(to_scalar))(X),
    "grad of jit": lambda: mx.grad(mx.jit(to_scalar))(X),
    "grad": lambda: mx.grad(to_scalar)(X),
    "value_and_grad": lambda: mx.value_and_grad(to_scalar)(X),
    "vjp": lambda: mx.vjp(misfit, X),
    "pullback": pulled_wrongly,
    "jvp": lambda: mx.jvp(misfit, (X,), (X,)),
    "linearize": lambda: mx.linearize(misfit, X),
    "linear function": pushed_wrongly,
    "jacfwd": lambda: mx.jacfwd(misfit)(X),
    "jacrev": lambda: mx.jacrev(misfit)(X),
    "hessian": lambda: mx.hessian(to_scalar)(X),
    "vmap": lambda: mx.vmap(misfit)(XS),
    "pmap": lambda: mx.pmap(misfit)(XS),
    "checkpoint": lambda: mx.checkpoint(misfit)(X),
    "custom_jvp": lambda: with_rule(mx.custom_jvp)(X),
    "custom_vjp": lambda: with_rule(mx.custom_vjp)(X),
    "cond": lambda: mx.cond(True, misfit, misfit, X),
    "switch": lambda: mx.switch(1, [misfit, misfit], X),
    "while_loop": lambda: mx.while_loop(lambda x: True, misfit, X),
    "fori_loop": lambda: mx.fori_loop(0, 2, loop_body, X),
    "scan": lambda: mx.scan(lambda c, x: (misfit(c), None), X, None, 2),
    "scan under vmap": lambda: mx.vmap(lambda y: mx.scan(loop_body, y, None, 2))(XS),
    "map": lambda: mx.map(misfit, XS),
    "associative_scan": lambda: mx.associative_scan(loop_body, XS),
    "make_graph": lambda: mx.make_graph(misfit)(X),
    "reference": lambda: mx.reference(misfit)(X),
    "simulate": lambda: mx.simulate(misfit, [[(X,)]]),
    "from_jax": lambda: mx.from_jax(lambda x: jax.numpy.add(x, np.ones(4)))(X),
    "import_stablehlo": lambda: mx.import_stablehlo("no program"),
    "import_hlo": lambda: mx.import_hlo("no program"),
    "imported program": lambda: PROGRAM_OF_ONE(X[:2]),
    "export": lambda: mx.export(misfit, X),
    "check_grads": lambda: mx.check_grads(misfit, (X,)),
    "cross_check": lambda: mx.cross_check(misfit, X),
    "operation": lambda: ops.add(X, np.ones(4, np.float32)),
    "function of two": lambda: mx.numpy.subtract(X, np.ones(4)),
    "sum": lambda: mx.numpy.sum(X, axis=3),
    "product": lambda: mx.numpy.matmul(XS, XS),
}


def shown(call: Callable[[], Any]) -> tuple[list[str], BaseException]:
    """The files of the frames that an error shows, and the error."""
    with pytest.raises(Exception) as caught:
        call()
    error = caught.value
    return [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)], error


@pytest.mark.parametrize("name", CALLS)
def test_errors_show_no_frame_of_the_framework(name: str) -> None:
    files, error = shown(CALLS[name])
    assert len(files) >= 2
    assert [file for file in files if not is_user_file(file)] == []
    assert error.__notes__[-1] == NOTE
    assert [note for note in error.__notes__ if "JAX_TRACEBACK_FILTERING" in note] == []


def test_errors_of_the_user_keep_all_frames_of_the_user() -> None:
    def inner(x: Any) -> Any:
        raise KeyError("mine")

    def step(carry: Any, x: Any) -> Any:
        return inner(carry), None

    def outer(x: Any) -> Any:
        return mx.scan(step, x, None, 3)[0]

    with pytest.raises(KeyError, match="mine") as caught:
        mx.jit(mx.grad(outer))(1.0)
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    this = test_errors_of_the_user_keep_all_frames_of_the_user.__name__
    assert frames == [this, "outer", "step", "inner"]


@pytest.mark.parametrize("option", ["MINIXLA_TRACEBACK_FILTERING", "JAX_TRACEBACK_FILTERING"])
def test_an_option_shows_all_frames(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIXLA_TRACEBACK_FILTERING")
    monkeypatch.setenv("JAX_TRACEBACK_FILTERING", "quiet_remove_frames")
    monkeypatch.setenv(option, "off")
    files, error = shown(CALLS["jit"])
    assert any(file.endswith("jit.py") for file in files)
    assert NOTE not in getattr(error, "__notes__", [])


def test_our_option_decides_before_that_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_TRACEBACK_FILTERING", "off")
    files, _ = shown(CALLS["grad"])
    assert all(map(is_user_file, files))


def test_frames_of_an_errors_cause_are_hidden_too() -> None:
    def fails() -> None:
        try:
            mx.numpy.zeros(3, dtype="no such type")
        except mx.ShapeError as error:
            raise ValueError("mine") from error

    _, error = shown(api_boundary(fails))
    cause = error.__cause__
    while cause is not None:
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(cause.__traceback__)]
        assert all(map(is_user_file, files)), files
        cause = cause.__cause__


def test_frames_that_stay_are_marked_for_ipython_and_pytest() -> None:
    files, error = shown(lambda: mx.numpy.broadcast_shapes((2,), (3,)))
    assert not all(map(is_user_file, files))
    for frame, _ in traceback.walk_tb(error.__traceback__):
        hidden = not is_user_file(frame.f_code.co_filename)
        assert frame.f_locals.get("__tracebackhide__", False) is hidden, frame


PROGRAM = """
import numpy as np
import minixla as mx

def loss(w, x):
    return (x @ w).sum()

mx.jit(mx.grad(loss))(np.ones((5, 6)), np.ones((3, 4)))
"""


def test_a_script_prints_the_users_lines_and_the_message_alone(tmp_path: Any) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    unset = {"MINIXLA_TRACEBACK_FILTERING", "JAX_TRACEBACK_FILTERING"}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    # Releases of Python differ in the lines that mark a part of the line above.
    lines = [line for line in done.stderr.splitlines() if line.strip(" ~^")]
    starts = [line.strip().split(",")[0] for line in lines if line.startswith("  File ")]
    assert starts == [f'File "{script}"'] * 2, done.stderr
    assert lines[-1] == NOTE
    assert len(lines) <= 13
