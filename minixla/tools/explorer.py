"""`explore`: a program's graph in Model Explorer, in its files, or on one HTML page."""

import atexit
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Collection, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jax import ShapeDtypeStruct

from minixla.core.errors import AttributeValueError, TransformError, check_arguments, explain
from minixla.core.graph import Graph
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import evaluate_graph
from minixla.engine.random_keys import flatten
from minixla.engine.subprocesses import end_child, start_child
from minixla.interop.progress import in_notebook, shown_progress
from minixla.tools.checked_function import check_repeatable
from minixla.tools.cross_check import cross_check
from minixla.tools.evaluators import EVALUATORS
from minixla.tools.explorer_files import write_files
from minixla.tools.graph_parts import is_array
from minixla.tools.html_page import page
from minixla.tools.layouts import layouts
from minixla.tools.oracle_values import Opinions
from minixla.tools.overlays import (
    Overlay,
    cost_overlays,
    error_overlays,
    finding_overlays,
    layout_overlays,
    nan_overlay,
)
from minixla.tools.program_files import Part, opened
from minixla.tools.reports import CrossCheckReport
from minixla.tools.source_lines import SourceLines
from minixla.transforms.evaluation import graph_of

_SUBJECT = "explore"
_PACKAGE = "model_explorer"
#: Overlays that require running the program.
Measured = Literal["errors", "findings", "nan"]
MEASURED = get_args(Measured)
_FORMS = (".json", ".html")
_ADDRESS = re.compile(r"http://\S+")


class Exploration:
    """A program that was written to files, or that Model Explorer shows.

    Attributes:
        files: the written files: the graph, then its overlays; or a page.
        overlays: the names of the overlays.
        notes: the reason for each requested overlay that is missing.
        url: the address at which Model Explorer shows it, or "".
    """

    def __init__(
        self, files: Sequence[Path], overlays: Sequence[str], notes: Sequence[str]
    ) -> None:
        self.files, self.overlays, self.notes = list(files), list(overlays), list(notes)
        self.url = ""
        self._server: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def stop(self) -> None:
        """End the server, and remove the files that were written for it."""
        if self._server is not None:
            end_child(self._server)
        if self._folder is not None:
            self._folder.cleanup()

    def wait(self) -> None:
        """Wait until the server ends or Ctrl-C ends it, for scripts, whose end would end it."""
        try:
            if self._server is not None:
                self._server.wait()
        finally:
            self.stop()

    def __str__(self) -> str:
        where = self.url or ", ".join(map(str, self.files))
        return "\n".join([where, *self.notes])

    def __repr__(self) -> str:
        return f"<Exploration {self.url or self.files[0]}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        if not self.url:
            return f"<pre>{escape(str(self))}</pre>"
        frame = f'<iframe src="{escape(self.url)}" width="100%" height="700"></iframe>'
        return f"{notes}{frame}"


@api_boundary
def explore(
    fun: Callable[..., Any] | Graph | CrossCheckReport,
    *args: Any,
    overlays: Collection[Measured] = (),
    path: str | os.PathLike[str] | None = None,
    port: int | None = None,
    browser: bool | None = None,
    source: str | os.PathLike[str] | None = None,
) -> Exploration:
    """Show a function's graph in Model Explorer, in a browser or a notebook.

        mx.explore(loss, parameters, batch, overlays=["errors", "nan"])
        mx.explore(loss, parameters, batch, path="loss.html")
        mx.explore(mx.cross_check(loss, parameters, batch))

    A node shows its shape, type, attributes, cost and the user's line. Nodes are grouped by
    function and line, and programs that an instruction runs are groups within it. Overlays color
    nodes by arithmetic and by bytes. If the program has a mesh, they also show shardings and bytes
    per device.

    Args:
        fun: a function of pytrees of arrays, jitted or not, a graph, or an imported program; or a
            report of `cross_check`, for the program that it checked, with its findings.
        *args: its arguments; without `overlays`, shapes (`jax.ShapeDtypeStruct`) suffice. A report
            contains its arguments, so pass none.
        overlays: more overlays, for which the program runs. `"nan"` shows where NaN and infinities
            are, and where they begin. `"errors"` shows the errors that `cross_check` measures, of
            each evaluator, after every instruction. `"findings"` shows the errors that
            `cross_check` finds, and the instructions where they begin.
        path: a file to write instead of showing the graph: `.json` for Model Explorer, with a file
            next to it for each overlay; or `.html`, one self-contained page.
        port: the port of the server, which listens on this machine only; default: a free one.
        browser: whether to open a browser; default: unless this runs in a notebook, which shows the
            result.
        source: the folder of an imported program's source files. The page shows lines of these
            files and of code that this process traced, and of no other files.

    Returns:
        An Exploration: `url`, `files`, `overlays`, `notes`; `wait()` until Ctrl-C; `stop()`.

    Raises:
        AttributeValueError: an overlay is unknown, or `path` has another suffix; a report is passed
            with arguments.
        TransformError: Model Explorer is not installed and no path is given; or an argument has no
            values to run the program on, or the program cannot run several times.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shown = mx.explore(mx.numpy.tanh, np.ones(3), path=f"{folder}/tanh.json")
        >>> shown.overlays
        ['arithmetic operations', 'bytes read and written']
    """
    report = fun if isinstance(fun, CrossCheckReport) else None
    if report is not None and args:
        problem, advice = "a report is passed with arguments", "Pass only the report."
        raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
    graph: Any = fun if isinstance(fun, Graph) else getattr(fun, "graph", None)
    if not isinstance(graph, Graph):
        function: Any = fun
        graph = graph(*args) if callable(graph) else graph_of(_SUBJECT, function, args)
    leaves = flatten(tuple(args))[0] if report is None else report.operands
    operands = _operands(graph, leaves) if overlays else []
    how: dict[str, Any] = {"port": port, "browser": browser, "report": report}
    return explored(graph, operands, overlays, path, SourceLines({}, source), **how)


def explored(
    graph: Graph,
    operands: Sequence[np.ndarray],
    overlays: Collection[str],
    path: str | os.PathLike[str] | None = None,
    lines: SourceLines | None = None,
    port: int | None = None,
    browser: bool | None = None,
    report: CrossCheckReport | None = None,
) -> Exploration:
    """Return the result of `explore` for a graph and its operands; `lines` is passed to `page`."""
    is_list = isinstance(overlays, Collection) and not isinstance(overlays, str)
    check_arguments(
        _SUBJECT,
        overlays=(overlays, is_list, f"a list of some of {', '.join(MEASURED)}"),
        path=(path, path is None or isinstance(path, (str, os.PathLike)), "a path, or None"),
    )
    target = None if path is None else Path(path)
    if target is not None and target.suffix not in _FORMS:
        problem, advice = f"{path} ends in {target.suffix!r}", f"Use one of {' or '.join(_FORMS)}."
        raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
    for name in overlays:
        if name not in MEASURED:
            advice = f"Pass {' or '.join(MEASURED)}; costs and layouts are always included."
            raise explain(AttributeValueError, _SUBJECT, f"overlay {name!r} is unknown", (), advice)
    if target is None:
        _check_installed()
    parts, overlays_made, notes = shown_parts(graph, operands, overlays, report)
    names = [overlay.name for overlay in overlays_made]
    if target is not None:
        if target.suffix == ".html":
            target.write_text(
                page(parts, overlays_made, lines or SourceLines({})), encoding="utf-8"
            )
            return Exploration([target], names, notes)
        return Exploration(write_files(target, parts, overlays_made), names, notes)
    folder = tempfile.TemporaryDirectory(prefix="minixla_explorer_")
    name = re.sub(r"[^\w.-]", "_", graph.name)
    file = Path(folder.name, f"{name}.json")
    exploration = Exploration(write_files(file, parts, overlays_made), names, notes)
    exploration._folder = folder
    atexit.register(exploration.stop)
    exploration._server, exploration.url = _served(exploration.files, port)
    if not in_notebook() if browser is None else browser:
        webbrowser.open(exploration.url)
    return exploration


def shown_parts(
    graph: Graph,
    operands: Sequence[np.ndarray] = (),
    measured: Collection[str] = (),
    report: CrossCheckReport | None = None,
) -> tuple[list[Part], list[Overlay], list[str]]:
    """Return an opened program, its overlays, and notes on missing ones; `report` is its check."""
    if measured:
        check_repeatable(_SUBJECT, graph)
        graph = graph.silent()
    if report is None and (graph.meshes or graph.annotations):
        graph = layouts(graph).graph
    if report is None and "findings" in measured:
        report = cross_check(_program(graph), *operands)
        graph = report.graph.with_paths(graph.paths)
    parts = opened(graph)
    made, notes = [*cost_overlays(parts), *layout_overlays(parts)], []
    with shown_progress(_SUBJECT) as say:
        if "nan" in measured:
            say("looking for NaN")
            made.append(nan_overlay(parts, operands))
        if "errors" in measured:
            asked = Opinions([*EVALUATORS.values()], say)
            errors, notes = error_overlays(parts, operands, asked)
            made += errors
    if report is not None:
        findings, elsewhere = finding_overlays(parts, report)
        made, notes = [*made, *findings], [*notes, *elsewhere]
    return parts, made, notes


def _program(graph: Graph) -> Callable[..., Any]:
    """Return a graph as a function of its inputs."""

    def program(*arguments: Any) -> list[Any]:
        return evaluate_graph(graph, arguments)

    program.__name__ = graph.name
    return program


def _operands(graph: Graph, leaves: Sequence[Any]) -> list[np.ndarray]:
    problem = ""
    if len(leaves) != len(graph.inputs):
        problem = f"{len(leaves)} arrays are given, and the graph takes {len(graph.inputs)}"
    elif not all(map(is_array, graph.inputs)):
        problem = "the graph takes tuples, tokens or arrays of dynamic size"
    elif any(isinstance(leaf, ShapeDtypeStruct) for leaf in leaves):
        problem = "an argument is a shape without values"
    if problem:
        advice = "Overlays that require running the program need arrays for all arguments."
        raise explain(TransformError, _SUBJECT, problem, (), advice)
    shapes: list[Any] = list(graph.input_shapes)
    pairs = zip(leaves, shapes, strict=True)
    return [np.asarray(leaf).astype(shape.dtype) for leaf, shape in pairs]


def _check_installed() -> None:
    if importlib.util.find_spec(_PACKAGE) is None:
        advice = "Install it (pip install 'minixla[explorer]'), or write one page that shows the "
        advice += "graph: path='page.html', minixla show --html."
        problem = "Model Explorer is not installed"
        raise explain(TransformError, _SUBJECT, problem, (), advice)


def _served(files: Sequence[Path], port: int | None) -> tuple[subprocess.Popen[str], str]:
    """Start Model Explorer's server for some files; return it and its address."""
    graph, *overlays = map(str, files)
    words = [
        sys.executable,
        "-P",
        "-m",
        _PACKAGE,
        graph,
        "--no_open_in_browser",
        "--host",
        "localhost",
    ]
    words += ["--node_data_paths", ",".join(overlays), "--port", str(port or _free_port())]
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = start_child(words, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **output)
    assert server.stdout is not None
    told: list[str] = []
    for line in server.stdout:
        told.append(line.rstrip())
        address = _ADDRESS.match(line)
        if address is not None:
            return server, address[0]
    end_child(server)
    problem = "Model Explorer's server has ended"
    advice = "See its output above; try another port."
    raise explain(TransformError, _SUBJECT, problem, told[-8:], advice)


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("localhost", 0))
        return some.getsockname()[1]
