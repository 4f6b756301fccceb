"""The template of a package with operations: built, installed, found, differentiated."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "op_library", project)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*command: object) -> str:
        done = subprocess.run(
            list(map(str, command)), env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", tmp_path, project)
    (wheel,) = tmp_path.glob("minixla_zero_out-*.whl")
    assert "any" not in wheel.name.rsplit("-", 1)[1]
    # An environment that has JAX, and nothing that knows of the package's sources.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (packages / "jax.pth").write_text(sysconfig.get_path("purelib"))
    run(*pip, "install", "--no-deps", "--no-index", "--target", packages, wheel)
    lines = run(python, "-c", PROGRAM).splitlines()
    assert lines[:4] == [
        "[5.0, 0.0, 0.0, 0.0, 0.0]",
        "[0.0, 0.0, 6.0, 0.0, 0.0]",
        "[[5.0, 0.0], [4.0, 0.0], [3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]",
        "True",
    ]
    assert Path(lines[4]).is_relative_to(packages)
