"""explore: what it takes, what it writes, how it refuses, and how it serves."""

from __future__ import annotations

import importlib.util
import json
import sys
import urllib.request
from pathlib import Path

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools import explorer
from minixla.tools.command_line import main
from minixla.tools.evaluators import EVALUATORS
from minixla.tools.explorer import MEASURED

X = np.array([[1.0, -1.0]], "f4")
COSTS = ["arithmetic operations", "bytes read and written"]
ERRORS = [f"error of {name} in ulp" for name in ("reference", "XLA")]


def logs(x):
    return mnp.log(x).sum()


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (logs, (X,)),
        (mx.jit(logs), (X,)),
        (logs, (jax.ShapeDtypeStruct((1, 2), "f4"),)),
        (mx.make_graph(logs)(X), ()),
        (mx.import_stablehlo(mx.make_graph(logs)(X).stablehlo()), ()),
    ],
    ids=["function", "jitted", "of shapes", "graph", "imported"],
)
def test_what_is_explored(fun, args, tmp_path):
    found = mx.explore(fun, *args, path=tmp_path / "logs.json")
    assert found.overlays == COSTS and not found.notes and not found.url
    assert found.files[0].name == "logs.json" and len(found.files) == 3
    nodes = json.loads(found.files[0].read_text())["graphs"][0]["nodes"]
    assert {"log", "reduce", "input 0", "results"} <= {node["label"] for node in nodes}


def test_overlays_are_those_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "EVALUATORS", {"XLA": EVALUATORS["XLA"]})
    path = tmp_path / "logs.html"
    found = mx.explore(logs, X, overlays=["errors", "nan"], path=str(path))
    assert found.overlays == [*COSTS, "NaN and infinities", *ERRORS]
    assert "NaN is made here" in path.read_text()
    assert str(found) == str(path) and str(path) in found._repr_html_()


def test_a_report_is_shown_with_what_was_found(tmp_path):
    report = mx.cross_check(logs, np.abs(X), gradients=False)
    found = mx.explore(report, overlays=["nan"], path=tmp_path / "logs.html")
    names = ["error that cross_check found in ulp", "findings of cross_check"]
    assert found.overlays == [*COSTS, "NaN and infinities", *names]
    asked = mx.explore(logs, np.abs(X), overlays=["findings"], path=tmp_path / "same.html")
    assert asked.overlays == [*COSTS, *names] and not asked.notes
    assert names[0] in asked.files[0].read_text()


def refused(*args, **options):
    with pytest.raises(mx.MinixlaError) as error:
        mx.explore(*args, **options)
    assert Path(__file__).name in str(error.value)
    return error.value


HOST = jax.ShapeDtypeStruct((1, 2), "f4")
BAD = {
    "overlay": ((logs, X), {"overlays": ["speed"]}, "overlay 'speed' is unknown"),
    "ending": ((logs, X), {"path": "a.svg"}, "ends in '.svg'"),
    "report": (
        (mx.cross_check(mnp.exp, X, gradients=False), X),
        {},
        "a report is passed with arguments",
    ),
    "shapes": ((logs, HOST), {"overlays": ["nan"]}, "an argument is a shape without values"),
    "too few": ((mx.make_graph(logs)(X),), {"overlays": ["nan"]}, "0 arrays are given"),
    "effects": (
        (lambda x: mx.ops.rng_uniform(x[0, 0], x[0, 1], mx.Shape("f32", (2,))), X),
        {"overlays": ["nan"]},
        "side effects",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_use_is_refused(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args, options, problem = BAD[case]
    error = refused(*args, **{"path": "a.html", **options})
    assert str(error).startswith("explore: ") and problem in str(error)
    assert not list(tmp_path.iterdir())


def test_without_the_package_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = refused(logs, X)
    assert "Model Explorer is not installed" in str(error)
    assert "pip install 'minixla[explorer]'" in str(error) and "page.html" in str(error)


SERVER = """
import sys, http.server, os
words = sys.argv[1:]
port = int(words[words.index("--port") + 1])
if port == 1: sys.exit("port 1 already in use.")
os.chdir(os.path.dirname(words[0]))
handler = http.server.SimpleHTTPRequestHandler
server = http.server.HTTPServer(("localhost", port), handler)
print("Loading extensions...")
print(f"http://localhost:{port}/{os.path.basename(words[0])}")
server.serve_forever()
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A module in the place of Model Explorer's, whose server gives the graph's file."""
    (tmp_path / "stand_in.py").write_text(SERVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(explorer, "_PACKAGE", "stand_in")
    opened: list[str] = []
    monkeypatch.setattr(explorer.webbrowser, "open", opened.append)
    return opened


def test_a_server_shows_it_until_it_is_stopped(server):
    found = mx.explore(logs, X)
    try:
        assert server == [found.url]
        assert found.url in found._repr_html_() and "<iframe" in found._repr_html_()
        with urllib.request.urlopen(found.url, timeout=20) as reply:
            assert json.load(reply)["label"] == "logs"
    finally:
        found.stop()
    assert not found.files[0].parent.exists()
    found.wait()  # it has ended
    found.stop()  # as often as one likes


def test_no_browser_is_opened_where_none_is_wanted(server, monkeypatch):
    mx.explore(logs, X, browser=False).stop()
    monkeypatch.setattr(explorer, "in_notebook", lambda: True)
    mx.explore(logs, X).stop()
    assert not server


def test_what_the_server_says_when_it_cannot_is_told(server):
    error = refused(logs, X, port=1)
    assert "port 1 already in use." in str(error) and not server


PROGRAM = mx.make_graph(logs)(X).stablehlo()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PROGRAM)
    np.save("x.npy", X)
    return tmp_path


def test_the_command_writes_files(folder, capsys):
    words = ["explore", "p.mlir", "x.npy", "--overlay", "nan", "--output", "p.json", "--json"]
    assert main(words) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["overlays"] == [*COSTS, "NaN and infinities"] and told["notes"] == []
    assert [*told["files"]] == sorted(map(str, told["files"]), key=told["files"].index)
    assert all(Path(file).is_file() for file in told["files"]) and len(told["files"]) == 4
    assert captured.err == "argument 0: x.npy\n"


@pytest.mark.parametrize("words", [["--html", "--output", "p.html"], ["--output", "p.html"]])
def test_show_writes_a_page_with_the_program_beside_the_graph(folder, words):
    assert main(["show", "p.mlir", *words]) == 0
    text = Path("p.html").read_text()
    assert "stablehlo.log" in text and 'data-line="&lt;stablehlo&gt;:' in text


def test_a_page_goes_to_standard_output_too(folder, capsysbinary):
    assert main(["show", "p.mlir", "--html"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"<!doctype html>")


BAD_WORDS = {
    "x.npy --output p.svg": "ends in '.svg'",
    "": "Model Explorer is not installed",
    "--overlay nan no.npy --output p.json": "no.npy: No such file",
}


@pytest.mark.parametrize("words", BAD_WORDS)
def test_the_command_refuses(folder, capsys, words, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["explore", "p.mlir", *words.split()]) == 2
    assert BAD_WORDS[words] in capsys.readouterr().err


def test_the_command_takes_the_overlays_that_explore_takes(capsys):
    with pytest.raises(SystemExit):
        main(["explore", "p.mlir", "--overlay", "speed"])
    err = capsys.readouterr().err
    assert all(repr(name) in err for name in MEASURED)


def test_the_package_is_not_loaded(folder):
    mx.explore(logs, X, path="a.json")
    assert "model_explorer" not in sys.modules
