"""Source lines: whose line an instruction and an error name, and in what form."""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import os
import sys
import types
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import DerivativeError, MinixlaError, ShapeError, explain
from minixla.core.graph import Graph
from minixla.core.source import (
    Expression,
    Source,
    find_source,
    given_as,
    is_user_file,
    running_expression,
    skip_callers,
    skip_package,
    text_of,
)
from minixla.core.tracing import evaluate_graph, trace_to_graph
from minixla_ops.elementwise.families import Unary

X = np.arange(3, dtype=np.float32)


def line_of(marker):
    """The number of the line of this file that ends with a comment `marker`."""
    with open(__file__) as file:
        lines = [n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {marker}")]
    assert len(lines) == 1, f"{marker} stands in lines {lines}"
    return lines[0]


def source_of(function, operation="Tanh"):
    graph = mx.make_graph(function)(X)
    (found,) = [each.source for each in graph.instructions if each.op.name == operation]
    return found


def direct(x):
    return ops.tanh(x)  # direct


def through_function(x):
    return direct(x)


def through_operator(x):
    y = x * x  # operator
    return ops.exp(y)


def decorator(fun):
    @functools.wraps(fun)
    def wrapper(*args):
        return fun(*args)

    return wrapper


@decorator
def decorated(x):
    return ops.tanh(x)  # decorated


@contextlib.contextmanager
def manager():
    yield


@manager()
def in_context_decorator(x):
    return ops.tanh(x)  # context


@functools.cache
def cached_negative():
    return functools.partial(direct)


class Model:
    def __call__(self, x):
        return ops.tanh(x)  # method

    @staticmethod
    def nested(x):
        def inner(y):
            return ops.tanh(y)  # inner

        return inner(x)


def comprehension(x):
    return [ops.tanh(each) for each in [x]]  # comprehension


def over_lines(x):
    return ops.mul(
        ops.tanh(  # over-lines
            x,
        ),
        x,
    )


in_lambda = lambda x: ops.tanh(x)  # lambda  # noqa: E731

WHERE = [
    (direct, "direct", "direct"),
    (through_function, "direct", "direct"),
    (decorated, "decorated", "decorated"),
    (in_context_decorator, "context", "in_context_decorator"),
    (functools.partial(direct), "direct", "direct"),
    (cached_negative(), "direct", "direct"),
    (Model(), "method", "Model.__call__"),
    (Model.nested, "inner", "Model.nested.<locals>.inner"),
    (comprehension, "comprehension", "comprehension.<locals>.<listcomp>"),
    (over_lines, "over-lines", "over_lines"),
    (mx.grad(lambda x: ops.reduce([direct(x)], [np.float32(0)], ops.add, [0])), "direct", "direct"),
    (mx.vmap(direct), "direct", "direct"),
    (lambda x: mx.vjp(direct, x)[0], "direct", "direct"),
]


@pytest.mark.parametrize(
    ("function", "marker", "name"), WHERE, ids=[str(i) for i in range(len(WHERE))]
)
def test_the_innermost_line_of_the_user(function, marker, name):
    found = source_of(function)
    if sys.version_info >= (3, 12):
        name = name.removesuffix(".<locals>.<listcomp>")
    assert (found.file, found.line, found.function) == (__file__, line_of(marker), name)


def test_a_lambda():
    assert source_of(in_lambda).function == "<lambda>"


def test_operators_name_the_line_too():
    assert source_of(through_operator, "Mul").line == line_of("operator")


def test_a_constant_names_the_line_where_it_is_used():
    def function(x):
        y = np.float32(7) + X
        return ops.add(x, y)  # constant

    assert source_of(function, "Constant").line == line_of("constant")


def transformed():
    def loss(x):
        y = ops.tanh(x)  # primal
        return ops.reduce([y], [np.float32(0)], ops.add, [0])

    return loss


@pytest.mark.parametrize(
    "function",
    [
        mx.grad(transformed()),
        lambda x: mx.jvp(transformed(), (x,), (x,)),
        mx.grad(mx.jit(transformed())),
    ],
    ids=["grad", "jvp", "grad of jit"],
)
def test_the_derivative_of_a_line_names_that_line(function):
    graph = mx.make_graph(function)(X)
    sources = [step.source for each in computations(graph) for step in each.instructions]
    lines = {source.line for source in sources if source is not None and source.file == __file__}
    # The body has two lines; what is asked for above has one.
    assert line_of("primal") in lines
    made = [step for each in computations(graph) for step in each.instructions]
    products = [step for step in made if step.op.name in ("Mul", "Sub")]
    assert products
    assert {step.source.line for step in products} == {line_of("primal")}


def computations(graph):
    found: list[Graph] = [graph]
    for each in found:
        found.extend(inner for step in each.instructions for inner in step.op.computations)
    return found


def test_graphs_keep_their_lines_when_evaluated_elsewhere():
    graph = mx.make_graph(direct)(X)
    again, _ = trace_to_graph(lambda x: evaluate_graph(graph, [x]), graph.input_shapes)
    assert again.instructions[0].source == graph.instructions[0].source


class NoDerivative(Unary):
    """Has no derivative."""

    no_derivative = "it is only for this test"

    def reference(self, operand, **_):
        return operand


def test_an_error_while_a_graph_is_transformed_names_the_line_in_it():
    def inside(x):
        return mx.bind(NoDerivative(), x)  # no derivative

    with pytest.raises(DerivativeError) as caught:
        mx.make_graph(mx.grad(mx.jit(inside)))(1.0)
    assert f"test_source.py:{line_of('no derivative')} (" in str(caught.value)


def test_rules_of_the_user_name_their_own_lines():
    @mx.custom_vjp
    def function(x):
        return ops.tanh(x)  # custom function

    def backward(_, cotangent):
        return (ops.exp(cotangent),)  # custom backward

    function.defvjp(lambda x: (ops.sin(x), None), backward)
    graph = mx.make_graph(lambda x: mx.vjp(function, x)[1](x))(X)
    lines = {step.op.name: step.source.line for step in graph.instructions}
    assert lines["Exp"] == line_of("custom backward")
    inner = mx.make_graph(lambda x: mx.vmap(function)(x))(X)
    (called,) = [g for step in inner.instructions for g in step.op.computations]
    assert called.instructions[0].source.line == line_of("custom function")


def test_how_a_line_is_shown(tmp_path, monkeypatch):
    found = source_of(direct)
    monkeypatch.chdir(os.path.dirname(__file__))
    line = line_of("direct")
    assert str(found) == f"test_source.py:{line} (direct)"
    monkeypatch.chdir(tmp_path)
    assert str(found) == f"{__file__}:{line} (direct)"


def test_a_line_is_shown_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert str(source_of(direct)).startswith(__file__)


def compiled(text, name):
    namespace: dict[str, object] = {"ops": ops}
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]


def test_code_made_at_run_time():
    function = compiled("\n\ndef f(x):\n    return ops.tanh(x)\n", "<made here>")
    assert str(source_of(function)) == "<made here>:4 (f)"


def test_equal_code_in_different_files():
    text = "def f(x):\n    return ops.tanh(x)\n"
    one, other = compiled(text, "/one/file.py"), compiled(text, "/other/file.py")
    assert isinstance(one, types.FunctionType)
    assert isinstance(other, types.FunctionType)
    assert one.__code__ == other.__code__, "what makes this test worth its while"
    graph = mx.make_graph(lambda x: (one(x), other(x)))(X)
    assert [step.source.file for step in graph.instructions] == ["/one/file.py", "/other/file.py"]
    text = str(graph)
    assert '"/one/file.py"' in text
    assert '"/other/file.py"' in text
    lowered = mx.jit(lambda x: (one(x), other(x))).lower(X).as_text(debug_info=True)
    assert '"/one/file.py"' in lowered
    assert '"/other/file.py"' in lowered


def test_skipped_packages(tmp_path, monkeypatch):
    from minixla.core import source as source_module

    monkeypatch.setattr(source_module, "_SKIPPED", list(source_module._SKIPPED))
    monkeypatch.setattr(source_module, "_IS_USER_FILE", dict(source_module._IS_USER_FILE))
    function = compiled("def f(x):\n    return ops.tanh(x)\n", str(tmp_path / "library.py"))
    assert source_of(function).file == str(tmp_path / "library.py")
    skip_package(str(tmp_path))
    assert source_of(function).file == __file__


LIBRARY = """
import minixla_ops as ops

def tanh(x):
    return ops.tanh(x)

def call(function, x):
    return function(x)
"""


@pytest.fixture(params=["site-packages", "dist-packages"])
def library(request, tmp_path):
    file = tmp_path / request.param / "library.py"
    file.parent.mkdir()
    file.write_text(LIBRARY)
    module = types.ModuleType("library")
    exec(compile(LIBRARY, str(file), "exec"), vars(module))
    return types.SimpleNamespace(file=str(file), tanh=module.tanh, call=module.call)


def test_a_line_of_a_library_has_the_line_of_the_user(library):
    def function(x):
        return library.call(library.tanh, x)  # in a library

    found = source_of(function)
    assert (found.file, found.line, found.function) == (library.file, 5, "tanh")
    assert (found.caller.file, found.caller.line) == (__file__, line_of("in a library"))
    assert str(found).endswith(f":5 (tanh), from {found.caller}")


def test_a_function_that_a_library_calls_is_the_user(library):
    found = source_of(lambda x: library.call(lambda y: ops.tanh(y), x))  # called back
    assert (found.line, found.caller) == (line_of("called back"), None)


def test_derivatives_keep_the_line_of_the_user(library):
    def function(x):
        return ops.reduce([library.tanh(x)], [np.float32(0)], ops.add, [0])  # derivative

    graph = mx.make_graph(mx.grad(function))(X)
    callers = [step.source.caller for step in graph.instructions if step.op.name == "Mul"]
    assert {caller.line for caller in callers} == {line_of("derivative")}


def test_locations_name_the_library_and_the_user(library):
    def function(x):
        with jax.named_scope("scope"):
            return library.tanh(x)  # location

    line = line_of("location")
    lowered = mx.jit(function).lower(X)
    text = lowered.as_text(debug_info=True)
    assert f'"{library.file}":5' in text and f'"{__file__}":{line}' in text
    again = mx.import_stablehlo(text).graph.instructions[0].source
    assert (again.file, again.line, again.function) == (library.file, 5, "tanh")
    assert (again.caller.file, again.caller.line) == (__file__, line)
    compiled = lowered.compile().as_text()
    tables = [f'"{library.file}"', f'"{__file__}"', " line=5 ", f" line={line} "]
    assert all(each in compiled for each in tables)
    assert 'op_name="scope" stack_frame_id=' in compiled
    read = mx.import_hlo(compiled)
    lines = {(step.source.file, step.source.line) for step in read.graph.instructions}
    assert lines == {(library.file, 5)}


def test_errors_name_the_line_of_the_user(library):
    def function(x):
        return library.tanh(x > 0)  # an error in a library

    with pytest.raises(MinixlaError) as caught:
        mx.make_graph(function)(X)
    assert f"library.py:5 (tanh), from {__file__}:{line_of('an error in a library')} (" in str(
        caught.value
    ).replace(os.path.relpath(__file__), __file__)


def test_callers_of_an_entry_point_are_no_users(monkeypatch):
    from minixla.core import source as source_module

    monkeypatch.setattr(source_module, "_IS_USER_FILE", dict(source_module._IS_USER_FILE))
    entrance = compiled("def f(x):\n    return x()\n", "/entry/point.py")
    assert entrance(find_source).file == "/entry/point.py"
    skip_callers("/entry/point.py")
    assert [entrance(find_source), entrance(find_source)] == [None, None]
    assert entrance(lambda: find_source()).file == __file__, "what it calls may be the user's"
    assert not is_user_file("/entry/point.py") and is_user_file(__file__)


def test_compiled_programs_carry_the_lines():
    def reduce(x):
        return ops.reduce([ops.tanh(x)], [np.float32(0)], ops.add, [0])  # in metadata

    text = mx.jit(reduce).lower(X).compile().as_text()
    marked = [line for line in text.splitlines() if " tanh(" in line]
    assert marked
    for line in marked:
        assert f'source_file="{__file__}" source_line={line_of("in metadata")}' in line
    # An operation with a region carries its line as well, not only what stands in the region.
    summed = [line for line in text.splitlines() if " reduce(" in line]
    assert summed
    for line in summed:
        assert f"source_line={line_of('in metadata')}" in line


def test_paths_are_escaped():
    function = compiled("def f(x):\n    return ops.tanh(x)\n", 'C:\\odd "path"\n.py')
    mx.jit(function).lower(X)
    assert "odd" in str(mx.make_graph(function)(X))


def test_errors_name_the_line():
    def wrong(x):
        return ops.add(x, X[:2])  # wrong call

    for call in (wrong, mx.jit(wrong), mx.grad(wrong), mx.vmap(wrong, in_axes=None, axis_size=2)):
        with pytest.raises(ShapeError) as caught:
            call(X)
        assert f"test_source.py:{line_of('wrong call')} (" in str(caught.value)


def test_the_layout_of_a_message():
    given, advice = ["lhs 3", "rhs 4"], "Make them equal."
    error = explain(ShapeError, "dot", "sizes differ", given, advice)  # laid out
    assert str(error).splitlines() == [
        "dot: sizes differ.",
        "  lhs 3",
        "  rhs 4",
        f"  called at {str(find_source()).rsplit(':', 1)[0]}:{line_of('laid out')} "
        "(test_the_layout_of_a_message)",
        "  Make them equal.",
    ]


def test_how_a_value_was_given_is_unknown_outside_of_the_framework():
    assert given_as("text") is None


class Asked:
    """Keeps the expression whose evaluation asks it something."""

    def __init__(self) -> None:
        self.found: Any = None

    def look(self) -> None:
        frame = sys._getframe(2)
        self.found = running_expression(Source(frame.f_code, frame.f_lasti))

    def __float__(self) -> float:
        self.look()
        return 1.0

    def __format__(self, format_spec: str) -> str:
        self.look()
        return ""


def expression_of(program: str, file: str = "<expression>") -> Expression | None:
    asked = Asked()
    linecache.cache[file] = (len(program), None, program.splitlines(True), file)
    try:
        exec(compile(program, file, "exec"), {"x": asked})
    finally:
        linecache.cache.pop(file)
    return asked.found


# A program, the expression that calls a method of x, and the kind of node that holds it.
PROGRAMS = [
    ("import math\ny = 1 + math.sin(x)", "math.sin(x)", ast.BinOp),
    ("def f():\n    return [float(x) for _ in range(1)]\nf()", "float(x)", ast.ListComp),
    ("y = {'a': float(x)}", "float(x)", ast.Dict),
    ("y = (lambda z, /, *a, k=1: float(z))(x)", "float(z)", ast.Lambda),
    ("s = 'äöü'; y = float(x)", "float(x)", ast.Assign),
    ("y = float(\n    x\n)", "float(x)", ast.Assign),
    (
        "for i in range(1):\n    try:\n        float(x)\n    finally:\n        pass",
        "float(x)",
        ast.Expr,
    ),
    ("y = f'{float(x)} and'", "float(x)", ast.FormattedValue),
    ("@(lambda z: lambda f: f)(float(x))\ndef f():\n    pass", "float(x)", ast.Call),
]


@pytest.mark.parametrize(("program", "text", "parent"), PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_the_innermost_expression_is_found(program: str, text: str, parent: type) -> None:
    found = expression_of(program)
    assert found is not None
    assert text_of(found.node) == text
    assert isinstance(found.parents[0], parent)
    assert isinstance(found.parents[-1], ast.Module)


def test_a_formatted_string_is_one_expression() -> None:
    found = expression_of("y = f'one {1} {x:.3f}'")
    assert found is not None and isinstance(found.node, ast.JoinedStr)


def test_unknown_where_there_is_no_source() -> None:
    asked = Asked()
    exec(compile("float(x)", "<nowhere>", "exec"), {"x": asked})
    assert asked.found is None
    assert running_expression(None) is None


def test_unknown_where_the_file_has_changed() -> None:
    here = find_source()
    assert here is not None
    name = "<changed>"
    code = here.code.replace(co_filename=name)
    for text in ("no python (", "x = 1\n"):
        linecache.cache[name] = (len(text), None, [text], name)
        assert running_expression(Source(code, here.instruction)) is None
        linecache.cache.pop(name)


def test_long_texts_are_cut() -> None:
    node = ast.parse(" + ".join(["name"] * 30)).body[0]
    assert len(text_of(node)) == 60
    assert text_of(node).endswith("...")
