"""The house: who may import what, what importing costs, names, and how long files are."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import minixla as mx
from minixla import transforms

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for package in ("minixla", "minixla_ops")
    for path in (ROOT / package).rglob("*.py")
    if "__pycache__" not in path.parts
)
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]

FAMILIES = (
    *("helpers", "programs", "dynamic_sizes", "movement", "elementwise", "folds", "indexing"),
    *("products", "control_flow", "collectives", "random", "linear_algebra", "host", "dump_only"),
)
#: Packages from the lowest up; each may import from those before it.
LEVELS = [
    *("minixla.version", "minixla.collecting", "minixla.core", "minixla.typing"),
    *[f"minixla_ops.{family}" for family in FAMILIES],
    *("minixla_ops", "minixla.reference_evaluator", "minixla.sharding", "minixla.legalize"),
    *("minixla.engine", "minixla.numpy", "minixla.transforms", "minixla.extension"),
    *("minixla.random", "minixla.nn", "minixla.scipy", "minixla.interop", "minixla.bridge"),
    "minixla.tools",
]
#: Names of these are read when a rule or a function runs.
LATE = {("minixla_ops", "ops"), ("minixla.numpy", "mnp")}
#: The declared exceptions: functions that load a package above.
HOOKS = "minixla/core/hooks.py"


def loaded_after(statement):
    """The modules that are loaded after `statement` in a fresh interpreter."""
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_importing_the_package_costs_nothing():
    loaded = loaded_after("import minixla; dir(minixla)")
    ours = {name for name in loaded if name.partition(".")[0] in ("minixla", "minixla_ops")}
    assert ours == {"minixla", "minixla.collecting", "minixla.version"}
    assert not {"jax", "jaxlib", "numpy", "ml_dtypes"} & loaded


def test_a_package_loads_only_what_it_needs():
    loaded = loaded_after("import minixla; minixla.grad")
    for name in ("minixla.nn", "minixla.random"):
        assert name not in loaded


@functools.cache
def imports_of(path):
    """(module, line) for each import in a file, relative ones made absolute."""
    return list(_imports_of(path))


def _imports_of(path):
    tree = ast.parse(path.read_text(), str(path))
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (alias.name, node.lineno)
                for alias in node.names
                if (alias.name, alias.asname) not in LATE
            )
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module, node.lineno
            yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), node.lineno


def within(module, package):
    return module == package or module.startswith(f"{package}.")


def all_imports():
    """(file, module, file and line) for each import."""
    for name in NAMES:
        yield from ((name, module, f"{name}:{line}") for module, line in imports_of(ROOT / name))


#: The only file with private JAX names, and the folder of the files that use other internals.
_PRIVATE = {"jax._src": "minixla/engine/jax_private.py"}
_PRIVATE |= dict.fromkeys(("jaxlib", "jax.interpreters"), "minixla/engine/")


def test_private_names_of_jax_stand_in_one_file():
    found = [
        f"{place} imports {module}"
        for name, module, place in all_imports()
        for package, home in _PRIVATE.items()
        if within(module, package) and not name.startswith(home)
    ]
    assert not found


def level_of(module):
    found = [index for index, level in enumerate(LEVELS) if within(module, level)]
    return found[0] if found else len(LEVELS)


def test_imports_go_downward():
    """Those inside functions, too."""
    found = [
        f"{place} imports {module} from above"
        for name, module, place in all_imports()
        if module.partition(".")[0] in ("minixla", "minixla_ops")
        and module != "minixla"  # `from minixla import name` is also listed as minixla.name
        and level_of(module) > level_of(".".join(Path(name).with_suffix("").parts))
        and name != HOOKS
    ]
    assert not found


def test_modules_import_each_other_in_small_circles():
    files = {".".join(Path(name).with_suffix("").parts): name for name in NAMES}
    files = {module.removesuffix(".__init__"): name for module, name in files.items()}

    def imported(name):
        """A package counts where a name of its own is imported, not where a module of it is."""
        found = {module for module, _ in imports_of(ROOT / name)} & set(files)
        return {each for each in found if not any(other.startswith(f"{each}.") for other in found)}

    arrows = {module: imported(name) for module, name in files.items() if name != HOOKS}

    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            new = arrows.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return seen

    reach = {module: reached(module) for module in arrows}
    circles = [
        [each for each in found if module in reach.get(each, ())] for module, found in reach.items()
    ]
    assert max(map(len, circles)) <= 10


def test_every_public_name_resolves():
    assert [name for name in mx.__all__ if getattr(mx, name, None) is None] == []
    assert set(mx.__all__) <= set(dir(mx))
    # Type checkers take every name of theirs for one of the package.
    assert set(transforms.__all__) <= set(mx.__all__)


def test_an_unknown_name():
    with pytest.raises(
        AttributeError, match="module 'minixla' has no attribute 'nothing'"
    ) as caught:
        _ = mx.nothing  # pyright: ignore[reportAttributeAccessIssue]
    assert [frame.f_code.co_filename for frame, _ in traceback.walk_tb(caught.tb)] == [__file__]
    with pytest.raises(ImportError):
        from minixla import nothing  # noqa: F401  # pyright: ignore[reportAttributeAccessIssue]  # that is the point


def test_public_names_are_what_their_modules_say():
    for name in mx.__all__:
        value = getattr(mx, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            module = importlib.import_module(value.__module__)
            assert getattr(module, value.__name__) is value


def test_files_are_short():
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in NAMES}
    long = {name: lines for name, lines in lengths.items() if lines > 500}
    assert not long, "look for the second topic in them"


# Files with operations, whose rules are annotated on the base class.
OF_RULES = [name for name in NAMES if name.startswith("minixla_ops/")] + [
    *(
        f"minixla/transforms/{name}.py"
        for name in (
            *("axis_operations", "checkpoint", "custom_calls"),
            *("debugging", "layouts", "pmap"),
        )
    ),
    *("minixla/bridge/custom_rules.py", "minixla/bridge/lowered.py"),
]


def _wraps_a_class(function):
    """Whether a function is a builder that is derived from its operation's class."""
    return inspect.isclass(function.__wrapped__)


def _written_in(module):
    """The functions and methods of a module that override nothing, by name."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            bases = value.__mro__[1:]
            own = {k: v for k, v in vars(value).items() if not any(k in vars(b) for b in bases)}
        else:
            own = {"": value}
        for key, each in own.items():
            function = getattr(each, "__func__", each)
            is_here = (
                inspect.isfunction(function) and function.__code__.co_filename == module.__file__
            )
            if is_here and function.__name__ != "<lambda>":
                yield f"{name}.{key}", inspect.unwrap(function, stop=_wraps_a_class)


@pytest.mark.parametrize("path", OF_RULES)
def test_what_is_no_override_is_annotated(path):
    module = importlib.import_module(".".join(Path(path).with_suffix("").parts))
    missing = []
    for name, function in _written_in(module):
        wanted = {*inspect.signature(function).parameters, "return"} - {"self", "cls"}
        unknown = sorted(wanted - set(function.__annotations__))
        missing += [f"{name}: {each}" for each in unknown if not each.startswith("_")]
    assert not missing


def test_every_list_of_names_is_true():
    found = []
    for name in NAMES:
        module = importlib.import_module(
            ".".join(Path(name).with_suffix("").parts).removesuffix(".__init__")
        )
        public = getattr(module, "__all__", [])
        found += [f"{name} lists {each}" for each in public if not hasattr(module, each)]
    assert not found


@pytest.mark.parametrize("package", ["minixla", "minixla_ops"])
def test_types_are_for_users_too(package):
    assert (ROOT / package / "py.typed").is_file()
