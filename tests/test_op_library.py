"""The template of a package with operations, as the page says that it is built and installed."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "custom_operations.md"
PROGRAM = """
import numpy as np
import minixla as mx
found = mx.installed_ops()
zero_out = found["zero_out"].zero_out
x = np.array([5, 4, 3, 2, 1], np.float32)
print(np.asarray(mx.jit(zero_out)(x)).tolist())
print(np.asarray(mx.grad(lambda x: (zero_out(x, preserve_index=2) * x).sum())(x)).tolist())
print(np.asarray(mx.vmap(zero_out)(x.reshape(5, 1).repeat(2, 1))).tolist())
print(mx.check_op(found["zero_out"].operation, [((x,), {"preserve_index": 1})]).ok)
print(found["zero_out"].__file__)
"""


@pytest.mark.full
def test_c55_the_wheel_is_built_installed_and_found(tmp_path):
    section = PAGE.read_text().partition("## A package for others")[2]
    commands = re.search("```sh\n(.*?)```", section, re.DOTALL)
    assert commands is not None and "pip wheel" in commands[1]
    # An environment that has JAX, setuptools and minixla, and nothing of the package.
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    purelib = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    packages = environment / purelib
    (packages / "paths.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    shutil.copytree(ROOT / "examples" / "op_library", tmp_path / "examples" / "op_library")
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1", "PIP_NO_INPUT": "1"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
        return done.stdout

    # Python 3.11 puts an old one there.
    run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools")
    assert run("bash", "-ec", commands[1]).splitlines()[-1] == "[1. 0. 0.]"
    (wheel,) = tmp_path.glob("dist/minixla_zero_out-*.whl")
    assert "any" not in wheel.name.rsplit("-", 1)[1]
    lines = run("python", "-c", PROGRAM).splitlines()
    assert lines[:4] == [
        "[5.0, 0.0, 0.0, 0.0, 0.0]",
        "[0.0, 0.0, 6.0, 0.0, 0.0]",
        "[[5.0, 0.0], [4.0, 0.0], [3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]",
        "True",
    ]
    assert Path(lines[4]).is_relative_to(packages)
