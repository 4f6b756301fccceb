"""Reproducers: XLA's faults that `legalize` avoids, each in a program of forty instructions."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES
from minixla.core.operation import REGISTRY
from minixla.legalize import disabled
from minixla.tools import reproducer_script, xla_process
from minixla.tools.command_line import main
from minixla.tools.program_edits import Program
from minixla.tools.reproducer import script, text_instruction_count, write_reproducer
from minixla.tools.xla_differences import Settings, difference
from tests.minixla.legalize.cpu.fault_rows import ROWS, Row
from tests.selection import unless


@pytest.fixture(autouse=True, scope="module")
def _users_flags() -> Iterator[None]:
    """Compile as users do: the tests' flags hide faults."""
    jax.devices()  # which this process has by the flags
    before = os.environ.pop("XLA_FLAGS", "")
    xla_process.stop()
    with mx.enable_x64(True):
        yield
    xla_process.stop()
    os.environ["XLA_FLAGS"] = before


def _embedded(program: Callable[..., Any], moves: bool) -> Callable[..., Any]:
    """A program among forty other instructions; with `moves` others read its results."""
    noise = np.linspace(-1, 1, 30, dtype="f4").reshape(5, 6)

    def embedded(*arguments: Any) -> Any:
        hidden = mnp.asarray(noise) * 1.5
        for _ in range(6):
            hidden = mnp.tanh(hidden @ (hidden.T @ noise)) + 0.5
        results = mx.tree.leaves(program(*arguments))
        if moves:
            results = [ops.rev(ops.broadcast(result, (2,)), (0,)) for result in results]
        return [hidden, *results, mnp.abs(hidden).sum()]

    return embedded


#: Rules whose fault shows only if bits are compared.
BITS = {"sign_of_zero", "constants_like_iota", "reduced_subnormals", "joined_terms"}
#: Rules whose fault disappears if other instructions read the results.
UNMOVED = {"narrowed_integers", "joined_arrays_of_two_bits", "sorts_of_short_types"}
#: Rules for programs whose results differ from run to run.
UNSTEADY = {"sorts_of_short_types"}
#: Rules for operations that XLA:CPU does not have.
LACKING = {f"{name}_by_lapack" for name in ("lu", "svd", "eigh", "eig", "schur")}
QUICK = {"overflown_squares", "counted_loops", "windows_of_negative_padding"}


def _rows() -> Iterator[Any]:
    rows = {(row.rule, row.dies): row for row in reversed(ROWS) if row.rule not in LACKING}
    for row in reversed(rows.values()):
        yield pytest.param(row, id=f"{row.rule}: {row.name}", marks=unless(row.rule in QUICK))


def _run(path: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(path)]
    return subprocess.run(words, capture_output=True, text=True, cwd=path.parent)


@pytest.mark.parametrize("row", list(_rows()))
def test_the_fault_of_a_rule_shrinks(row: Row, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    program = _embedded(row.program, row.rule not in UNMOVED)
    graph = mx.make_graph(program)(*row.arguments)
    settings = Settings("cpu", frozenset({("cpu", row.rule)}), exact=row.rule in BITS)
    reproducer = write_reproducer(path, row.name, {"function": (graph, row.arguments)}, settings)
    is_loop = "stablehlo.while" in path.read_text()
    assert reproducer.instructions <= (10 if is_loop else 5)
    assert reproducer.seconds < 60
    assert len(graph.instructions) > 30
    # The smallest program shows this rule's fault: with the rule XLA is right.
    smallest = Program(reproducer.graph, reproducer.operands)
    assert difference(smallest, settings._replace(disabled_rules=frozenset())) is None
    # JAX starts twice for a script.
    if row.rule not in (QUICK | UNSTEADY) - {"overflown_squares"}:
        done = _run(path)
        assert done.returncode == 1, done.stderr
        assert "XLA differs from what is expected." in done.stdout


def _clz() -> Any:
    return ops.clz(ops.constant(np.int32([-1, 5])))


def test_a_report_writes_a_reproducer(tmp_path: Path) -> None:
    @mx.jit
    def program(x: Any) -> Any:
        return {"sum": mnp.sin(x).sum(), "zeros": x * _clz().astype("f4")}

    with disabled("cpu", "leading_zeros"):
        report = mx.cross_check(program, np.float32([2, 3]))
    # The rules are those of the report, not those of now.
    reproducer = report.reproducer(tmp_path / "wrong.py")
    assert (reproducer.kind, reproducer.instructions) == ("value", 1)
    assert "wrong.py: XLA computes a wrong value; 1 instruction" in str(reproducer)


def test_an_isolated_check_survives(tmp_path: Path) -> None:
    def program() -> Any:
        five, zero = np.int32([5, 7]), np.int32([0, 2])
        return ops.div(ops.constant(five), ops.constant(zero)) + 1

    with disabled("cpu", "integer_division_by_zero"):
        report = mx.cross_check(program, isolated=True)
    assert not report.ok
    assert "SIGFPE" in report.findings[0].explanation
    assert report.reproducer(tmp_path / "wrong.py").kind == "died"


def test_a_loop_with_a_large_body(tmp_path: Path) -> None:
    weights = np.linspace(-1, 1, 9, dtype="f4").reshape(3, 3)

    def body(state: Any) -> Any:
        index, x, count, total = state
        y = mnp.tanh(x @ weights) + x
        y = mnp.where(y > 3, y * 0.5, y)
        return index + ops.constant(np.int32(2)), y, count + 1, total + y.sum()

    def program(x: Any) -> Any:
        start = ops.constant(np.int32(0)), x, np.int32(0), np.float32(0)
        limit = np.int32(1)
        return mx.while_loop(lambda state: state[0] < ops.constant(limit), body, start)[1:]

    with disabled("cpu", "counted_loops"):
        report = mx.cross_check(program, np.ones((2, 3), "f4"), gradients=False)
    assert report.reproducer(tmp_path / "wrong.py").instructions <= 10
    assert "stablehlo.while" in (tmp_path / "wrong.py").read_text()


def test_a_derivative_of_a_function(tmp_path: Path) -> None:
    @mx.custom_jvp
    def identity(x: Any) -> Any:
        return x * 1

    @identity.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        large = ops.constant(np.full(2, 2e38, "f4"))
        return x * 1, t * ops.div(x, large)

    with disabled("cpu", "division_by_large_constants"):
        report = mx.cross_check(identity, np.float32([3e38, 1e38]))
        reproducer = report.reproducer(tmp_path / "wrong.py")
    assert reproducer.instructions == 1


def test_without_an_error_of_xla_there_is_no_reproducer(tmp_path: Path) -> None:
    @mx.custom_jvp
    def square(x: Any) -> Any:
        return x * x

    square.defjvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    report = mx.cross_check(square, np.float32([2, 3]))
    assert not report.ok
    with pytest.raises(mx.TransformError, match="finding of kind derivative"):
        report.reproducer(tmp_path / "wrong.py")
    assert not list(tmp_path.iterdir())


def test_a_wrong_reference_is_not_an_error_of_xla(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = REGISTRY["Tanh"].reference
    monkeypatch.setattr(
        REGISTRY["Tanh"], "reference", lambda self, x: rule(self, x) * x.dtype.type(1.01)
    )
    report = mx.cross_check(mnp.tanh, np.float32([0.5, 1]), gradients=False)
    assert not report.ok
    with pytest.raises(mx.TransformError, match="StableHLO's interpreter agrees"):
        report.reproducer(tmp_path / "wrong.py")


def test_code_that_only_this_process_knows_is_not_an_error_of_xla(tmp_path: Path) -> None:
    def program(x: Any) -> Any:
        return mx.pure_callback(
            lambda y: np.asarray(y, "f4") * 2, jax.ShapeDtypeStruct((2,), "f4"), x
        )

    report = mx.cross_check(program, np.float32([1, 2]), gradients=False, isolated=True)
    assert [row.verdict for row in report.rows] == ["ok", "not run", "not run"]
    with pytest.raises(mx.TransformError, match="for one device"):
        report.reproducer(tmp_path / "wrong.py")


def test_a_program_for_several_devices(tmp_path: Path) -> None:
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    spec = jax.sharding.PartitionSpec("x")
    program = mx.shard_map(lambda x: x * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    report = mx.cross_check(program, np.float32([1, 2]), gradients=False, isolated=True)
    with pytest.raises(mx.TransformError, match="for one device"):
        report.reproducer(tmp_path / "wrong.py")


def test_a_script_is_plain_python_whatever_the_names(tmp_path: Path) -> None:
    settings = Settings("cpu", frozenset({("cpu", "leading_zeros")}))
    program = Program(mx.make_graph(_clz)(), ())
    found = difference(program, settings)
    assert found is not None
    name = "\"\"\"\nimport os; os.abort()\n\\ \u2028 ''' {x} \x00"
    message = found.outcome._replace(message=name, ending="died")
    text = script(name, program, found._replace(outcome=message), settings)
    tree = ast.parse(text)
    texts = {
        ast.unparse(each.targets[0]): ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) in ("NAME", "PROGRAM")
    }
    assert texts == {"NAME": name, "PROGRAM": found.text}
    assert text.isascii()
    imports = [x for x in ast.walk(tree) if isinstance(x, (ast.Import, ast.ImportFrom))]
    modules = {getattr(x, "module", None) or x.names[0].name for x in imports}
    others = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    assert others == {"jax", "ml_dtypes", "numpy"}  # JAX needs ml_dtypes


def test_a_script_ends_with_0_once_xla_is_right(tmp_path: Path) -> None:
    settings = Settings("cpu", frozenset({("cpu", "leading_zeros")}))
    program = Program(mx.make_graph(_clz)(), ())
    found = difference(program, settings)
    assert found is not None
    path = tmp_path / "right.py"
    right = found._replace(expected=found.outcome.results)
    path.write_text(script("\x1b[31mred", program, right, settings))
    done = _run(path)
    assert done.returncode == 0, done.stderr
    assert r"\x1b[31mred: " in done.stdout
    assert "\x1b" not in done.stdout
    assert "XLA gives what is expected." in done.stdout


@pytest.mark.parametrize("kind", ELEMENT_TYPES.values(), ids=str)
def test_arrays_of_all_types_are_written_exactly(kind: Any) -> None:
    bits = np.arange(kind.dtype.itemsize * 4, dtype="u1") % (2 if kind.bits < 8 else 251)
    array = bits.view(kind.dtype).reshape(2, 2)
    written = kind.stablehlo, array.shape, array.tobytes().hex()
    again = reproducer_script.array_of(written)
    assert (again.dtype, again.shape, again.tobytes()) == (kind.dtype, (2, 2), array.tobytes())


@pytest.mark.parametrize("kind", ["bf16", "f8e4m3fn", "s4", "u2", "c64", "f64", "pred"])
def test_both_run_all_types(kind: str) -> None:
    array = np.array([1, 0, 1]).astype(ELEMENT_TYPES[kind].dtype)
    text = mx.make_graph(lambda x: ops.rev(x, (0,)))(array).stablehlo()
    outcome = xla_process.run_xla(text, [array])
    for result in (*outcome.results, *reproducer_script.run_on_interpreter(text, [array])):
        np.testing.assert_array_equal(result, array[::-1])


def test_errors_that_are_allowed() -> None:
    one, near = np.float32([1.0, 0.0]), np.float32([1.001, -0.0])
    is_equal = reproducer_script.is_equal
    assert is_equal(near, one, np.array([0.01, 0]))
    assert not is_equal(near, one, np.array([0.0001, 0]))
    assert not is_equal(near, one, np.array([0.01, -1]))
    nan = np.float32([np.nan, 0])
    assert is_equal(nan, nan, np.array([-1, -1]))
    assert not is_equal(nan, one, np.array([9.0, 9.0]))


def test_reducers_and_constants_are_not_counted() -> None:
    def program(x: Any) -> Any:
        return mx.while_loop(lambda y: y.sum() < 9, lambda y: y * 2 + 1, x)

    text = mx.make_graph(program)(np.float32([1, 2])).stablehlo()
    # The loop, the sum, the comparison, the product, the sum with 1.
    assert text_instruction_count(text) - text.count("broadcast") == 5


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, target = tmp_path / "clz.mlir", tmp_path / "wrong.py"
    program.write_text(mx.make_graph(_clz)().stablehlo())
    words = ["check", str(program), "--reproducer", str(target)]
    assert main(words) == 0
    assert "is not written: " in capsys.readouterr().err
    with disabled("cpu", "leading_zeros"):
        assert main(words) == 1
    assert "wrong.py: XLA computes a wrong value" in capsys.readouterr().err
    assert target.exists()
