"""Other releases of JAX than the supported ones raise one error, which says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import pytest

from minixla.core.jax_version import SUPPORTED

ROOT = Path(__file__).parents[2]


def last_line(program: str, *folders: Path) -> str:
    """Run a program in a process that looks for modules in folders first."""
    path = os.pathsep.join(map(str, (*folders, ROOT)))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return (found.stderr or found.stdout).strip().splitlines()[-1]


@pytest.mark.parametrize("version", ["0.10.1", "0.11.0", "0.11.0.dev20260101", "1.0"])
@pytest.mark.parametrize(
    "program",
    ["import minixla as mx; mx.grad", "import minixla.numpy", "import minixla_ops"],
)
def test_another_release(tmp_path, version, program):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text(f"__version__ = {version!r}")
    message = last_line(program, tmp_path)
    assert message.startswith(f"ImportError: minixla needs jax{SUPPORTED}, but version {version} ")
    assert f"pip install 'jax{SUPPORTED}'" in message


def test_a_release_that_lacks_a_private_name():
    program = "import jax._src.core as core; del core.freeze_p; import minixla as mx; mx.grad"
    message = last_line(program)
    assert message.startswith(f"ImportError: minixla needs jax{SUPPORTED}, but version ")
    assert f"{jax.__version__} lacks a name" in message
    assert "freeze_p" in message


def test_importing_the_package_loads_no_jax():
    assert last_line("import minixla, sys; print('jax' in sys.modules)") == "False"


def test_the_range_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"jax{SUPPORTED}" in project["dependencies"]
