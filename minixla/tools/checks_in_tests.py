"""Cross-checks of the functions that a project's tests jit: the plugin `pytest --minixla-check`."""

from __future__ import annotations

import functools
import sys
import time
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np
import pytest

from minixla.core.graph import Graph
from minixla.tools.cross_check import cross_check
from minixla.tools.reports import CrossCheckReport
from minixla.transforms import make_graph

#: Packages whose own use of `jax.jit` is not recorded.
_LIBRARIES = ("jax", "jaxlib", "minixla", "minixla_ops", "pytest_minixla")
#: The name of the properties of a test that carry its findings, also between xdist's processes.
_PROPERTY, _COUNT = "minixla-check", "minixla-check-count"


class _Call(NamedTuple):
    """A call of a jitted function: the function, its name and its arrays."""

    function: Callable[..., Any]
    name: str
    arguments: tuple[Any, ...]


class _Recorded:
    """A jitted function that notes each new signature with which it is called."""

    def __init__(
        self, made: Any, fun: Callable[..., Any], options: dict[str, Any], calls: list[_Call]
    ) -> None:
        functools.update_wrapper(self, fun)
        self._made, self._fun, self._calls = made, fun, calls
        self._static = _positions(options.get("static_argnums", ()))
        names = options.get("static_argnames") or ()
        self._static_names = {names} if isinstance(names, str) else set(names)
        self._seen: set[object] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Record before the call, which may take the memory of donated arguments.
        call = self._new_call(args, kwargs)
        results = self._made(*args, **kwargs)
        if call is not None:
            self._calls.append(call)
        return results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def _new_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> _Call | None:
        at = [
            n
            for n in range(len(args))
            if n not in self._static and n - len(args) not in self._static
        ]
        bound = {name: kwargs[name] for name in kwargs if name in self._static_names}
        named = {name: value for name, value in kwargs.items() if name not in bound}
        dynamic = (*[args[n] for n in at], *([named] if named else []))
        leaves, tree = jax.tree.flatten(dynamic)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return None
        fixed = tuple([(n, value) for n, value in enumerate(args) if n not in at])
        kinds = tuple([(np.shape(x), getattr(x, "dtype", type(x))) for x in leaves])
        try:
            key = tree, kinds, fixed, tuple(bound.items())
            if key in self._seen:
                return None
            self._seen.add(key)
            kept = jax.tree.unflatten(tree, list(map(_copied, leaves)))
        except Exception:  # a static argument without a hash, a leaf that is not an array
            return None
        fun, count = self._fun, len(at)

        def function(*values: Any) -> Any:
            places = dict(zip(at, values[:count], strict=True)) | dict(fixed)
            by_name = values[count] if named else {}
            return fun(*[places[n] for n in range(len(places))], **by_name, **bound)

        name = f"{getattr(fun, '__module__', '')}.{getattr(fun, '__qualname__', repr(fun))}"
        function.__name__ = getattr(fun, "__name__", "function")
        return _Call(function, name, kept)


def _positions(numbers: Any) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers or ())


def _copied(leaf: Any) -> Any:
    is_array = isinstance(leaf, (np.ndarray, jax.Array))
    is_key = is_array and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended)
    return np.array(leaf) if is_array and not is_key else leaf


class ChecksInTests:
    """The plugin, which records what the `jit` of some modules compiles and checks it later."""

    def __init__(self, config: pytest.Config, modules: Sequence[types.ModuleType]) -> None:
        self._calls: list[_Call] = []
        self._programs: set[Graph] = set()
        self._seconds = float(config.getoption("--minixla-check-seconds") or 0)
        self._fails = config.getoption("--minixla-check-fail")
        file = config.getoption("--minixla-check-accepted")
        lines = Path(file).read_text(encoding="utf-8").splitlines() if file else []
        self._accepted = {line.strip() for line in lines if line.strip()[:1] not in ("", "#")}
        self._before: list[Any] = [(module, module.jit) for module in modules]
        for module, jit in self._before:
            module.jit = self._recording(jit)

    def pytest_unconfigure(self) -> None:
        """Restore the functions."""
        for module, jit in self._before:
            module.jit = jit

    def _recording(self, jit: Callable[..., Any]) -> Callable[..., Any]:
        calls = self._calls

        @functools.wraps(jit)
        def recording(*args: Any, **options: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.partition(".")[0] in _LIBRARIES:
                return jit(*args, **options)
            if not args and "fun" not in options:
                return functools.partial(recording, **options)
            fun = args[0] if args else options["fun"]
            return _Recorded(jit(*args, **options), fun, options, calls)

        return recording

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check what the test has compiled."""
        self._calls.clear()
        outcome = yield
        end, count, found = time.monotonic() + self._seconds, 0, list[str]()
        for call in self._calls:
            if time.monotonic() > end:
                break
            report = self._checked(call)
            count += report is not None
            found += [] if report is None else self._findings(call, report)
        item.user_properties.append((_COUNT, (count, len(self._calls))))
        item.user_properties += [(_PROPERTY, text) for text in found]
        self._calls.clear()
        if found and self._fails:
            pytest.fail("\n\n".join(["minixla: evaluators differ", *found]), pytrace=False)
        return outcome

    def _checked(self, call: _Call) -> CrossCheckReport | None:
        """Return the report for a new program; None for others, and if it cannot run."""
        try:
            graph = make_graph(call.function)(*call.arguments)
            if graph in self._programs:
                return None
            self._programs.add(graph)
            return cross_check(call.function, *call.arguments, progress=lambda _: None)
        except Exception:  # side effects, operations of other machines, the test's own errors
            return None

    def _findings(self, call: _Call, report: CrossCheckReport) -> Iterator[str]:
        if report.ok:
            return
        lines = {
            f"{call.name}: {each.kind} {each.operation or ''}".strip(): str(each)
            for each in report.findings
        }
        for line, text in (lines or {f"{call.name}: {report}".splitlines()[0]: ""}).items():
            if line not in self._accepted:
                yield f"{line}\n{text}".strip()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List the findings of all tests."""
        reports = [
            report
            for each in terminalreporter.stats.values()
            for report in each
            if getattr(report, "when", None) == "call"
        ]
        properties = [
            (report.nodeid, name, value)
            for report in reports
            for name, value in report.user_properties
        ]
        counts = [value for _, name, value in properties if name == _COUNT]
        checked, seen = (sum([count[n] for count in counts]) for n in (0, 1))
        terminalreporter.section("minixla: cross-checks", sep="=", bold=True)
        for test, name, value in properties:
            if name == _PROPERTY:
                terminalreporter.write_line(f"{test}\n{_indented(value)}\n")
        terminalreporter.write_line(f"{checked} programs checked, {seen} calls with new signatures")


def _indented(text: str) -> str:
    return "\n".join([f"    {line}" for line in text.splitlines()])
