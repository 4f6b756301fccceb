"""Compiles the kernels into the wheel."""

import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

import minixla as mx


class BuildWithKernels(build_py):
    """Puts the compiled library beside the Python files."""

    def run(self) -> None:
        super().run()
        library = mx.build_op_library([Path(__file__).parent / "zero_out.cc"])
        shutil.copy(library, Path(self.build_lib) / "minixla_zero_out" / "zero_out.so")


class Compiled(Distribution):
    """A wheel for one platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildWithKernels}, distclass=Compiled)
