"""What is built and installed: all files, and a package that works where nothing else is."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import minixla
from minixla.engine import kernels

ROOT = Path(__file__).parents[1]
#: What users do first, in a folder that knows nothing of this one.
PROGRAM = """
import minixla as mx, minixla.numpy as np
assert mx.__file__.startswith({home!r}), mx.__file__
print(mx.jit(mx.grad(lambda x: np.sum(np.sin(x) ** 2)))(np.ones(3)))
print(mx.random.normal(mx.random.key(0), (2,)).shape, mx.nn.relu(-1.0))
print(mx.cross_check(lambda x: np.exp(x), np.ones(3)).ok)
"""


def run(*command: object, cwd: Path = ROOT) -> str:
    """What a command prints; fails, showing everything, where it fails."""
    # As in a terminal that has not seen this project: neither its path, nor the tests' options.
    left = {"PYTHONPATH", "PYTHONHOME", "XLA_FLAGS"}
    environment = {name: value for name, value in os.environ.items() if name not in left}
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(*words: object, cwd: Path = ROOT) -> str:
    """Runs pip, as it is in the environment of the tests."""
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *words, cwd=cwd)


def tracked(*folders: str) -> set[str]:
    """The files that belong to the project: those of git, and new ones that it does not ignore."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    return {each for each in run(*words).split("\n") if each and (ROOT / each).is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the project, so that nothing is built inside of it."""
    copy = tmp_path_factory.mktemp("source")
    for name in tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return copy


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    offline = "--no-deps", "--no-build-isolation", "--no-index"
    pip("wheel", *offline, "--wheel-dir", folder, ".", cwd=source)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def plain_wheel(source, tmp_path_factory) -> Path:
    """The wheel of a machine without a compiler."""
    copy = tmp_path_factory.mktemp("plain") / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    folder = copy.with_name("wheel")
    build = "import os; os.environ['MINIXLA_KERNELS'] = '0'; from setuptools.build_meta import "
    run(sys.executable, "-c", f"{build}build_wheel; build_wheel({str(folder)!r})", cwd=copy)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def archive(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=source)
    (found,) = folder.glob("*.tar.gz")
    return found


def make_environment(folder: Path, *options: str) -> Path:
    """An environment without anything; the path of its Python."""
    run(sys.executable, "-m", "venv", *options, folder)
    return folder / "bin" / "python"


def check_environment(python: Path, elsewhere: Path) -> None:
    """Runs what users do first."""
    home = str(python.parents[1])
    shown = run(python, "-c", PROGRAM.format(home=home), cwd=elsewhere)
    assert shown.splitlines()[1:] == ["(2,) 0.0", "True"]
    version = run(python.parent / "minixla", "--version", cwd=elsewhere)
    assert version == f"minixla {minixla.__version__}\n"
    page = run(python.parent / "minixla", "explain", "TransformError", cwd=elsewhere)
    assert page.startswith("TransformError\n")


def test_the_change_log_begins_with_this_version():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    newest = next(line for line in lines if line.startswith("## "))
    assert re.match(rf"## {re.escape(minixla.__version__)}( |$)", newest), newest


def test_every_kind_of_file_is_package_data():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["*"]
    # setuptools takes these by itself.
    known = {"py", "pyi", *[each.rpartition(".")[2] for each in patterns]}
    files = tracked("minixla", "minixla_ops")
    assert {name.rpartition(".")[2] for name in files} <= known


@pytest.mark.full
def test_the_wheel_has_all_files_of_the_packages_and_no_others(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    packed = {name for name in names if ".dist-info/" not in name}
    built = {name for name in packed if name.startswith("minixla/engine/kernels/library.")}
    more = {"pytest_minixla.py", "minixla/tools/errors.md"}
    assert packed - built == tracked("minixla", "minixla_ops") | more
    assert len(built) == (kernels.library() is not None)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.full
def test_the_wheel_is_for_every_python_and_has_no_debug_information(wheel):
    if kernels.library() is None:
        assert wheel.name.endswith("-py3-none-any.whl")
        return
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")
    opened = zipfile.ZipFile(wheel)
    (library,) = (each for each in opened.infolist() if "/kernels/library." in each.filename)
    assert library.file_size < 400_000
    assert not re.search(r"cpython|cp3\d", library.filename)
    assert b".debug_info" not in opened.read(library)


@pytest.mark.full
def test_the_wheel_without_kernels_is_for_every_platform(plain_wheel):
    assert plain_wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(plain_wheel).namelist()
    assert not [name for name in names if name.endswith((".so", ".dylib", ".pyd"))]


@pytest.mark.full
def test_the_source_archive_has_all_that_the_wheel_is_made_from(archive):
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    folders = "minixla", "minixla_ops", "docs", "examples"
    wanted = tracked(*folders) | {
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "pytest_minixla.py",
        "setup.py",
    }
    assert wanted - names == set()
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["wheel", "plain_wheel", "archive", "source"])
def test_it_installs_and_runs_elsewhere(kind, tmp_path, request):
    python = make_environment(tmp_path / "environment", "--without-pip")
    (packages,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    # What it depends on is that of the tests. Of the .pth files there, which name the project
    # itself, none is read this way.
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "tests_dependencies.pth").write_text("\n".join(ours))
    given = request.getfixturevalue(kind)
    offline = "--no-deps", "--no-build-isolation", "--no-index"
    pip("--python", python, "install", "--quiet", *offline, given, cwd=tmp_path)
    check_environment(python, tmp_path)


@pytest.mark.full
def test_it_installs_with_what_it_depends_on(wheel, tmp_path):
    python = make_environment(tmp_path / "environment")
    asked = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "opt-einsum"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        pytest.skip(f"pip's index does not answer: {asked.stderr.strip().splitlines()[-1]}")
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel)
    check_environment(python, tmp_path)
    assert "No broken requirements" in run(python, "-m", "pip", "check")


def test_it_works_without_docstrings_and_assertions():
    program = (
        "import minixla as mx, minixla_ops as ops; print(mx.grad(mx.numpy.sin)(0.0), ops.conv)"
    )
    assert run(sys.executable, "-OO", "-c", program).startswith("1.0 <function conv")
