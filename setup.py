"""The compiled code of minixla: without a C++ compiler XLA's own forms are used in its place."""

from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup

EXTENSIONS = []
JAXLIB = find_spec("jaxlib")
if JAXLIB is not None and JAXLIB.origin is not None:  # its headers are needed
    SOURCES = ["minixla/engine/kernels/convolutions.cc"]
    kernels = Extension(
        "minixla.engine.kernels.library",
        sources=SOURCES,
        depends=SOURCES,
        include_dirs=[str(Path(JAXLIB.origin).with_name("include"))],
        extra_compile_args=["-std=c++17", "-O3", "-fvisibility=hidden", "-w"],
        optional=True,
    )
    EXTENSIONS.append(kernels)

setup(ext_modules=EXTENSIONS)
