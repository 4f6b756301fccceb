"""Evaluators of users' own: in reports, in the command line, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.operation import REGISTRY
from minixla.tools.command_line import main
from minixla.tools.evaluators import EVALUATORS
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.minixla.tools.planting import sine_form

X = np.array([0.3, 1.2, -0.7], np.float32)


@pytest.fixture(autouse=True)
def standing():
    before = dict(EVALUATORS)
    yield
    EVALUATORS.clear()
    EVALUATORS.update(before)


def by_rules(graph, operands):
    return reference_graph(graph, operands)


def with_sine(graph, operands):
    """What an evaluator gives that takes tanh for sin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(REGISTRY["Tanh"], "reference", lambda self, x: np.sin(x))
        return reference_graph(graph, operands)


def verdicts(report, name):
    return {row.value: row.verdict for row in report.rows if row.evaluator == name}


def test_a_registered_evaluator_is_asked_in_every_check():
    mx.register_evaluator("mine", by_rules)
    mx.register_evaluator("mine", by_rules)
    for function in (mnp.tanh, lambda x: (x * x).sum()):
        report = mx.cross_check(function, X)
        assert report.ok, report
        assert set(verdicts(report, "mine").values()) == {"ok"}
        assert [row.evaluator for row in report.rows[:4]] == [*EVALUATORS]


def test_a_function_that_is_defined_again_takes_its_place():
    for answer in (0, 1):

        def function(graph, operands, answer=answer):
            return [np.full(3, answer, "f4")]

        mx.register_evaluator("mine", function)
    assert verdicts(mx.cross_check(lambda x: x * 0 + 1, X, gradients=False), "mine") == {
        "result": "ok"
    }


def test_a_registered_evaluator_that_is_wrong_is_named():
    mx.register_evaluator("mine", with_sine)
    report = mx.cross_check(mnp.tanh, X, gradients=False)
    assert verdicts(report, "mine") == {"result": "parts"}
    (finding,) = report.findings
    assert (finding.operation, finding.suspects) == ("tanh", ("mine",))


@pytest.mark.parametrize(
    ("reads", "suspects"),
    [
        (True, ("StableHLO form",)),
        (False, ("reference rule", "HLO form", "StableHLO form", "mine")),  # two voices against two
    ],
)
def test_all_who_read_a_wrong_text_are_one_voice(monkeypatch, reads, suspects):
    mx.register_evaluator("mine", with_sine, reads_stablehlo=reads)
    monkeypatch.setattr(REGISTRY["Tanh"], "stablehlo", sine_form)
    report = mx.cross_check(mnp.tanh, X, gradients=False)
    (finding,) = report.findings
    assert finding.suspects == suspects, report


def test_a_known_gap_is_no_failure():
    mx.register_evaluator(
        "mine",
        with_sine,
        known_gap=lambda step: "mine has no tanh" if step.op.name == "Tanh" else None,
    )
    report = mx.cross_check(mnp.tanh, X, gradients=False)
    assert report.ok and not report.findings, report
    (row,) = [row for row in report.rows if row.evaluator == "mine"]
    assert (row.verdict, row.note) == ("not run", "mine has no tanh")
    assert mx.cross_check(mnp.exp, X, gradients=False).ok


def test_an_evaluator_is_named_and_loaded_when_it_is_asked(tmp_path, monkeypatch):
    (tmp_path / "evaluator_of_mine.py").write_text(
        "from minixla_ops.programs.reference_evaluation import reference_graph as run\n"
        "gap = lambda step: 'a gap' if step.op.builder_name == 'tanh' else None\n"
    )
    mx.register_evaluator("mine", "evaluator_of_mine:run", known_gap="evaluator_of_mine:gap")
    monkeypatch.syspath_prepend(tmp_path)
    assert verdicts(mx.cross_check(mnp.tanh, X, gradients=False), "mine") == {"result": "ok"}


def test_an_evaluator_that_fails_is_named():
    mx.register_evaluator("mine", lambda graph, operands: {}["x"])
    with pytest.raises(KeyError) as caught:
        mx.cross_check(mnp.tanh, X, gradients=False)
    assert caught.value.__notes__ == ["The evaluator 'mine' of cross_check raised it."]
    mx.register_evaluator("mine", lambda graph, operands: None)
    with pytest.raises(mx.TransformError, match="the results of evaluator 'mine'") as refused:
        mx.cross_check(mnp.tanh, X, gradients=False)
    assert "evaluator: None" in str(refused.value)


# Who is registered as what, and what the error says.
REFUSED = {
    "a taken name": (("XLA", by_rules), "the name 'XLA' of an evaluator is reserved"),
    "it in small letters": (("xla", by_rules), "the name 'xla' of an evaluator is reserved"),
    "a name in reports": (("JAX", by_rules), "the name 'JAX' of an evaluator is reserved"),
    "no name": ((" ", by_rules), "an evaluator's name must be a string, not ' '"),
    "a number for a name": ((3, by_rules), "an evaluator's name must be a string, not 3"),
    "no function": (("mine", 3), "evaluator 'mine' is not a function: 3"),
    "a text that names none": (("mine", "numpy"), "evaluator 'mine' is not a function: 'numpy'"),
    "another with the name": (("known", with_sine), "the name 'known' of an evaluator is reserved"),
    "no known gap": (("mine", by_rules, [1]), "known_gap of 'mine' is not a function: [1]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    mx.register_evaluator("known", by_rules)
    (given, function, *gap), message = REFUSED[name]
    with pytest.raises(mx.TransformError, match=re.escape(message)) as caught:
        mx.register_evaluator(given, function, known_gap=gap[0] if gap else None)
    assert str(caught.value).startswith("register_evaluator: ")
    assert list(EVALUATORS) == ["reference", "interpreter", "XLA", "known"]
    with pytest.raises(mx.TransformError, match="cross_check: the name"):
        mx.cross_check(mnp.sin, X, evaluators={"known": by_rules})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program and a file that registers an evaluator."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(mx.make_graph(mnp.tanh)(X).stablehlo())
    np.save("x.npy", X)
    (tmp_path / "mine.py").write_text(
        "import numpy, minixla as mx\n"
        "def function(graph, operands):\n"
        "    if len(graph.instructions) > 1:\n"
        "        raise NotImplementedError('too long')\n"
        "    return [numpy.tanh(operands[0])]\n"
        "mx.register_evaluator('Mine', function)\n"
    )


def test_a_registered_evaluator_is_a_backend_of_the_command_line(folder, capsys):
    words = ["--load", "mine.py", "--backend", "mine"]
    assert main(["run", "p.mlir", "x.npy", *words]) == 0
    assert str(np.tanh(X)) in capsys.readouterr().out
    assert main(["check", "p.mlir", "x.npy", "--load", "mine.py"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    mine = [line for line in lines if "Mine" in line]
    assert mine[0][-1] == "ok" and mine[1][-4:] == ["not", "run", "too", "long"]
    with pytest.raises(SystemExit):
        main(["run", "--load", "mine.py", "--help"])
    assert "{reference,interpreter,xla,mine}" in capsys.readouterr().out
    assert main(["grad", "p.mlir", "x.npy", *words]) == 2
    assert "minixla grad: mine cannot evaluate it: too long" in capsys.readouterr().err


BAD_FILES = {
    "nothing.py": "minixla: nothing.py: No such file or directory",
    "p.mlir": "minixla: --load: p.mlir is not a Python file: its name does not end in .py",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_cannot_be_loaded(folder, capsys, name):
    assert main(["run", "p.mlir", "--load", name]) == 2
    assert capsys.readouterr().err == f"{BAD_FILES[name]}\n"


def test_a_file_that_is_not_named(folder, capsys):
    with pytest.raises(SystemExit):
        main(["run", "p.mlir", "--load"])
    assert "minixla run: error: argument --load: expected one argument" in capsys.readouterr().err
