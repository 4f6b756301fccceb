"""Build steps: the compiled kernels, the tag of the wheel, and the page of error messages.

The kernels are optional. If there is no C++ compiler, or MINIXLA_KERNELS=0, the wheel is
`py3-none-any` and minixla uses XLA's convolutions.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py


class BuildKernels(build_ext):
    """Name the library without a Python version: it does not use Python's C interface."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of the library, such as `minixla/engine/kernels/library.so`."""
        return os.path.join(*fullname.split(".")) + EXTENSION_SUFFIXES[-1]


class BuildPages(build_py):
    """Copy the page that `minixla explain` prints into the package."""

    def run(self) -> None:
        """Copy the Python files, then the page."""
        super().run()
        if not self.editable_mode:
            page = os.path.join(self.build_lib, "minixla", "tools", "errors.md")
            self.copy_file("docs/errors.md", page)


class Wheel(bdist_wheel):
    """Tag the wheel for every Python 3, and for this platform only if it has kernels."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return `py3`, `none` and the platform, or `any`."""
        kernels = self.get_finalized_command("build_ext")
        is_built = any(map(os.path.exists, kernels.get_outputs()))
        return "py3", "none", super().get_tag()[2] if is_built else "any"


EXTENSIONS = []
JAXLIB = find_spec("jaxlib")
IS_WANTED = os.environ.get("MINIXLA_KERNELS", "1") != "0"
if IS_WANTED and JAXLIB is not None and JAXLIB.origin is not None:  # its headers are needed
    SOURCES = ["minixla/engine/kernels/convolutions.cc"]
    KERNELS = Extension(
        "minixla.engine.kernels.library",
        sources=SOURCES,
        depends=SOURCES,
        include_dirs=[str(Path(JAXLIB.origin).with_name("include"))],
        # Python's own flags ask for debug information, which is most of the library's size.
        extra_compile_args=["-std=c++17", "-O3", "-g0", "-fvisibility=hidden", "-w"],
        extra_link_args=["-s"] if sys.platform == "linux" else [],
        optional=True,
    )
    EXTENSIONS.append(KERNELS)

COMMANDS = {"bdist_wheel": Wheel, "build_ext": BuildKernels, "build_py": BuildPages}
setup(ext_modules=EXTENSIONS, cmdclass=COMMANDS)
