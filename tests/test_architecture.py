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

# Rooms from the ground up; each may import from those before it.
FAMILIES = (
    *("vocabulary", "programs", "dynamic_sizes", "movement", "elementwise", "folds", "indexing"),
    *("products", "control_flow", "collectives", "random", "linear_algebra", "host", "dumps"),
)
STOREYS = [
    "minixla.core",
    *[f"minixla_ops.{family}" for family in FAMILIES],
    *("minixla_ops", "minixla.reference_evaluator", "minixla.sharding"),
    *("minixla.legalize", "minixla.engine"),
]
WITHOUT_JAX = ("minixla/core/", "minixla_ops/", "minixla/reference_evaluator/", "minixla/legalize/")


def loaded_after(statement):
    """The modules that are loaded after `statement` in a fresh interpreter."""
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import minixla.core",
        "import minixla_ops",
        "import minixla.reference_evaluator",
        "import minixla; minixla.ops.add; minixla.core; minixla.Graph",
        "from minixla.core import *; from minixla_ops import *",
    ],
)
def test_the_foundation_does_without_jax(statement):
    loaded = loaded_after(statement)
    assert not {"jax", "jaxlib"} & loaded


def test_the_foundation_computes_without_jax():
    loaded = loaded_after(
        "import numpy, minixla_ops as ops\n"
        "from minixla.core import Shape\n"
        "from minixla.core.tracing import trace_to_graph\n"
        "from minixla_ops.programs.reference_evaluation import reference_graph\n"
        "graph, _ = trace_to_graph(lambda x: [ops.tanh(x)], [Shape('f32', (3,))])\n"
        "reference_graph(graph, [numpy.ones(3, 'f4')])\n"
        "graph.stablehlo(), str(graph)\n"
    )
    assert not {"jax", "jaxlib"} & loaded


def test_importing_the_package_costs_nothing():
    loaded = loaded_after("import minixla; dir(minixla)")
    ours = {name for name in loaded if name.partition(".")[0] in ("minixla", "minixla_ops")}
    assert ours == {"minixla"}
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
            yield from ((alias.name, node.lineno) for alias in node.names)
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


def test_only_the_engine_touches_the_inside_of_jax():
    found = [
        f"{place} imports {module}"
        for name, module, place in all_imports()
        if not name.startswith("minixla/engine/")
        and (within(module, "jax._src") or within(module, "jaxlib"))
    ]
    assert not found


def test_no_import_of_jax_in_the_foundation():
    found = [
        f"{place} imports {module}"
        for name, module, place in all_imports()
        if name.startswith(WITHOUT_JAX) and within(module, "jax")
    ]
    assert not found


# Where an import goes upward it is made when called, and this says why.
UPWARD = {
    ("minixla/core/tracing.py", "minixla.engine"): "loads the default evaluator when first needed",
    ("minixla/core/graph.py", "minixla.engine"): "writes what a platform receives",
    ("minixla_ops/elementwise/operators.py", "minixla.numpy"): "x @ y is NumPy's matmul",
    ("minixla/sharding/mesh.py", "minixla.engine"): "makes a mesh of JAX's where one is asked for",
    **{
        ("minixla/sharding/__init__.py", f"minixla.{room}"): "public names load when they are used"
        for room in ("interop", "tools", "transforms")
    },
}


def storey_of(module):
    found = [index for index, storey in enumerate(STOREYS) if within(module, storey)]
    return found[0] if found else len(STOREYS)


def test_imports_go_downward():
    found = [
        f"{place} imports {module} from above"
        for name, module, place in all_imports()
        if module.partition(".")[0] in ("minixla", "minixla_ops")
        and module not in ("minixla", "minixla_ops")  # names of which are read when rules run
        and storey_of(module) > storey_of(".".join(Path(name).with_suffix("").parts))
        and not any(name == file and within(module, room) for file, room in UPWARD)
    ]
    assert not found


def test_exceptions_from_the_order_are_still_needed():
    for file, room in UPWARD:
        assert any(within(module, room) for module, _ in imports_of(ROOT / file)), (file, room)


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


def test_a_file_is_a_room():
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in NAMES}
    long = {name: lines for name, lines in lengths.items() if lines > 500}
    assert not long, "look for the second room in them"


# Files with operations, whose rules are annotated on the base class.
OF_RULES = [name for name in NAMES if name.startswith("minixla_ops/")] + [
    "minixla/interop/jax_calls.py",
    *(
        f"minixla/transforms/{name}.py"
        for name in (
            *("axis_operations", "checkpoint", "custom_calls"),
            *("debugging", "layouts", "pmap"),
        )
    ),
]


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
                yield f"{name}.{key}", inspect.unwrap(function)


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
