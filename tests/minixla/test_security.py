"""Untrusted files open no other file, run no code of the current folder, and print safely."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.source import printable
from minixla.engine import subprocesses
from minixla.tools.command_line import main

ROOT = Path(__file__).parents[2]
_SECRET = "SECRET=42"
_NAMES = {
    "plain": "{0}",
    "a name": '"name"({0})',
    "a call": "callsite({0} at {0})",
    "fused": "fused[{0}]",
    "fused with metadata": 'fused<"x">[{0}]',
}


def _program(file: str, form: str = "plain", line: int = 2) -> str:
    place = _NAMES[form].format(f'"{file}":{line}:1')
    return (
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
        f"  %0 = stablehlo.sine %a : tensor<f32> loc({place})\n  return %0 : tensor<f32>\n}}"
    )


def _hlo(file: str) -> str:
    return (
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  ROOT b = f32[] sine(a), "
        f'metadata={{op_name="x" source_file="{file}" source_line=2}}\n}}'
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a private file and a project of one source file."""
    (tmp_path / "private.py").write_text(f"first\n{_SECRET}\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "model.py").write_text("first\nMODEL LINE\n")
    (project / "link.py").symlink_to(tmp_path / "private.py")
    (project / "up").symlink_to(tmp_path)
    os.mkfifo(project / "pipe.py")
    return tmp_path


def _page(folder: Path, text: str, *words: str) -> str:
    suffix = "hlo" if text.startswith("HloModule") else "mlir"
    (folder / f"program.{suffix}").write_text(text)
    target = folder / "page.html"
    given = ["show", str(folder / f"program.{suffix}"), "--html", "--output", str(target), *words]
    assert main(given) == 0
    return target.read_text()


@pytest.mark.parametrize("form", _NAMES)
def test_pages_hold_no_lines_of_files_that_locations_name(folder, form):
    assert _SECRET not in _page(folder, _program(f"{folder}/private.py", form))


def test_pages_of_hlo_hold_no_lines_either(folder):
    assert _SECRET not in _page(folder, _hlo(f"{folder}/private.py"))


#: The file of a location, and whether `--source project` shows it.
_BELOW = {
    "{0}/project/model.py": True,
    "model.py": True,
    "{0}/project/./model.py": True,
    "{0}/project/../project/model.py": True,
    "{0}/private.py": False,
    "../private.py": False,
    "{0}/project/../private.py": False,
    "link.py": False,
    "{0}/project/link.py": False,
    "up/private.py": False,
    "pipe.py": False,
    "missing.py": False,
    "{0}/project": False,
    "model.py\\00": False,
    "{0}/project_of_others/model.py": False,
}


@pytest.mark.parametrize("name, is_shown", _BELOW.items(), ids=_BELOW)
def test_source_lines_below_a_folder(folder, name, is_shown):
    (folder / "project_of_others").mkdir()
    (folder / "project_of_others" / "model.py").write_text("first\nMODEL LINE\n")
    words = ["--source", str(folder / "project")]
    page = _page(folder, _program(name.format(folder)), *words)
    assert _SECRET not in page
    assert ("MODEL LINE" in page) == is_shown


def test_a_source_folder_that_is_not_there(folder, capsys):
    (folder / "p.mlir").write_text(_program("model.py"))
    assert main(["show", str(folder / "p.mlir"), "--html", "--source", str(folder / "no")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_explore_takes_a_folder(folder):
    program = mx.import_stablehlo(_program("model.py"))
    pages = {
        source: mx.explore(program, np.float32(1), path=folder / "p.html", source=source)
        .files[0]
        .read_text()
        for source in (folder / "project", None)
    }
    assert "MODEL LINE" in pages[folder / "project"]
    assert "MODEL LINE" not in pages[None]


def test_lines_that_this_process_traced_are_shown(tmp_path):
    function = mx.jit(lambda x: mx.numpy.asarray(x) * 2)  # MARK
    for each in (function, lambda x: mx.numpy.sin(x) + 1):  # MARK
        shown = mx.explore(each, np.float32(1), path=tmp_path / "p.html")
        assert "# MARK" in shown.files[0].read_text()


def test_no_file_is_opened(folder):
    """Everything that may look up a source line runs in a process that reports opened files."""
    private = folder / "private.py"
    (folder / "p.mlir").write_text(_program(str(private)))
    script = f"""
import sys, linecache
import numpy as np, minixla as mx, jax
def watch(event, arguments):
    if event == "open" and str(arguments[0]) == {str(private)!r}: print("OPENED", flush=True)
program = mx.import_stablehlo({str(folder / "p.mlir")!r})
x = np.float32(2)
sys.addaudithook(watch)
print(program.graph, program.graph.stablehlo(), program.graph._repr_html_()[:5])
program(x); mx.jit(program)(x); mx.grad(program)(x)
print(mx.cross_check(program, x), mx.cost(program, x))
mx.explore(program, x, path={str(folder / "p.json")!r}, overlays=["nan", "errors"])
try: mx.jit(lambda x: bool(program(x)))(x)
except mx.MinixlaError as error: print(error)
try: program(np.ones(3, "f4"))
except mx.MinixlaError as error: print(error)
with mx.debug_nans(True):
    try: program(np.float32(np.inf))
    except mx.MinixlaError as error: print("NaN", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "OPENED" not in done.stdout
    assert _SECRET not in done.stdout + done.stderr
    assert "NaN" in done.stdout


_RUNS = {
    "show": ["show", "p.mlir"],
    "run": ["run", "p.mlir"],
    "run by the interpreter": ["run", "p.mlir", "--backend", "interpreter"],
    "a pass": ["convert", "p.mlir", "--pass", "symbol-dce", "--engine", "shardy"],
    "HLO": ["run", "p.hlo", "--backend", "reference"],
}
#: Modules, of the standard library and others, that helper processes import.
_MODULES = "resource", "hlo_protos", "mmap", "struct", "jax", "numpy", "signal", "model_explorer"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    """A folder with modules that record when they run."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in _MODULES:
        (folder / f"{name}.py").write_text(f"open(r'{folder}/ran', 'a').write({name!r})\n")
    (folder / "p.mlir").write_text(_program("model.py"))
    (folder / "p.hlo").write_text(_hlo("model.py"))
    return folder


def _run(folder: Path, *words: str) -> str:
    """Return the modules of a folder that ran during a command."""
    (folder / "ran").unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, env=env, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return (folder / "ran").read_text() if (folder / "ran").exists() else ""


_SCRIPT = os.path.join(os.path.dirname(sys.executable), "minixla")
_STARTS = {"minixla": [_SCRIPT], "python -m minixla": [sys.executable, "-m", "minixla"]}


def _starts() -> Iterator[Any]:
    for start in _STARTS:
        for words in _RUNS:
            # The ways to start differ only in `sys.path`, which one command shows; another test
            # runs the other commands in one process.
            marks = () if words == "show" else pytest.mark.full
            yield pytest.param(start, words, id=f"{start} {words}", marks=marks)


@pytest.mark.parametrize("start, words", list(_starts()))
def test_commands_run_no_code_of_the_current_folder(hostile, start, words):
    assert not _run(hostile, *_STARTS[start], *_RUNS[words])


def test_commands_one_after_the_other_run_no_code_of_the_current_folder(hostile):
    script = f"""
from minixla.tools.command_line import main
for words in {[*_RUNS.values()]!r}:
    assert main(words) == 0, words
"""
    assert not _run(hostile, sys.executable, "-P", "-c", script)


def test_processes_that_help_run_no_code_of_the_current_folder(hostile):
    """Even if it is on the path of the main process, as in an interactive session."""
    script = """
import sys, os
import numpy as np, minixla as mx, jax
from minixla.tools.interpreter import run_stablehlo
sys.path[:0] = ["", os.getcwd(), "."]
program = mx.import_stablehlo(open("p.mlir").read())
mx.import_hlo(open("p.hlo").read())
mx.sharding.run_pass("symbol-dce", open("p.mlir").read(), engine="shardy")
run_stablehlo(program.graph.stablehlo(), [np.float32(1)])
assert mx.cross_check(program, np.float32(1)).ok
"""
    assert not _run(hostile, sys.executable, "-P", "-c", script)


def test_helpers_find_what_the_process_finds(tmp_path, monkeypatch):
    """Folders of PYTHONPATH count, including the current one if it is named there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/other", *sys.path])
    folders = subprocesses.module_path().split(os.pathsep)
    assert "/other" in folders
    assert str(tmp_path) not in folders
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert str(tmp_path) in subprocesses.module_path().split(os.pathsep)


_ESCAPES = "\x1b[31m", "\x07", "\r", "\x9b2J", "\u202e", "\x7f"
#: Programs that print a string; control characters are escaped in the text.
_STRINGS = {
    "a location": _program("{0}"),
    "a function": (
        'func.func @"{0}"(%a: tensor<f32>) -> tensor<f32> {{ return %a : tensor<f32> }}'
    ),
    "a custom call": (
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {{\n"
        '  %0 = stablehlo.custom_call @"{0}"(%a) {{backend_config = "{0}"}} '
        ": (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}}"
    ),
    "an attribute": (
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {{\n"
        '  %0 = stablehlo.sine %a {{"x{0}" = 1 : i32}} : tensor<f32>\n'
        "  return %0 : tensor<f32>\n}}"
    ),
    "a mesh": (
        'sdy.mesh @"{0}" = <["{0}"=2]>\nfunc.func @main(%a: tensor<4xf32> '
        '{{sdy.sharding = #sdy.sharding<@"{0}", [{{"{0}"}}]>}}) -> tensor<4xf32> '
        "{{ return %a : tensor<4xf32> }}"
    ),
    "an unknown operation": 'func.func @main() {{ "{0}"() : () -> ()\n return }}',
    "an invalid text": "{0} is not a program {{",
}


def _escaped(text: str) -> str:
    return "".join([f"\\{each:02X}" for each in text.encode()])


@pytest.mark.parametrize("raw", _ESCAPES, ids=map(repr, _ESCAPES))
@pytest.mark.parametrize("form", _STRINGS)
def test_terminals_get_no_control_characters(form, raw, tmp_path, capsys):
    template = _STRINGS[form]
    if "{{" not in template:
        template = template.replace("{", "{{").replace("}", "}}").replace("{{0}}", "{0}")
    written = raw if form == "an invalid text" else _escaped(raw)
    (tmp_path / "p.mlir").write_text(template.format(written), newline="")
    for words in (
        ["show"],
        ["show", "--form", "stablehlo"],
        ["show", "--form", "dot"],
        ["cost", "--no-xla"],
    ):
        main([words[0], str(tmp_path / "p.mlir"), *words[1:]])
    told = capsys.readouterr()
    assert raw not in told.out + told.err
    try:
        program = mx.import_stablehlo((tmp_path / "p.mlir").read_bytes())
    except mx.MinixlaError as error:
        assert raw not in str(error)
        return
    for shown in (repr(program), str(program.graph), repr(program.graph)):
        assert raw not in shown


_HTML = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'--><b>",
    "{{rows}}",
)


@pytest.mark.parametrize("name", _HTML)
@pytest.mark.parametrize("form", ["a location", "a function", "a custom call", "a mesh"])
def test_pages_hold_no_markup_of_programs(form, name, tmp_path):
    template = _STRINGS[form]
    if "{{" not in template:
        template = template.replace("{", "{{").replace("}", "}}").replace("{{0}}", "{0}")
    page = _page(tmp_path, template.format(_escaped(name)))
    assert "<script>alert" not in page and "<img" not in page and "<b>" not in page
    graph = mx.import_stablehlo(template.format(_escaped(name))).graph
    shown = graph._repr_html_()
    assert "<script" not in shown and "<img" not in shown and "<b>" not in shown


def test_printable():
    assert printable("a\nb\tc é 漢") == "a\nb\tc é 漢"
    assert printable("\x1b[0m\r\udc80") == r"\x1b[0m\r\udc80"


def test_axes_that_end_xla_are_refused():
    """XLA's translation of meshes has other escapes than MLIR, and would end the process."""
    mesh = mx.sharding.Mesh(None, "é", (1,))
    program = mx.import_stablehlo(
        'sdy.mesh @m = <["a\\C2\\9B"=1]>\nfunc.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n'
        '  %0 = sdy.sharding_constraint %a <@m, [{"a\\C2\\9B"}]> : tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}"
    )
    for function in (program, lambda x: mx.sharding.constrain(x, jax.P("é"), mesh=mesh)):
        np.testing.assert_array_equal(mx.reference(function)(np.ones(4, "f4")), np.ones(4))
        with pytest.raises(mx.ShardingError, match="Rename the axis"):
            mx.jit(function)(np.ones(4, "f4"))
