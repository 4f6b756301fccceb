"""Compile programs for TPUs and GPUs without such devices, and estimate their cost.

XLA's compilers for them run on any machine; the extra `far` has the packages. If JAX finds
these packages it looks for devices at every start. They may therefore be in a separate folder,
given by the environment variable MINIXLA_FAR. Compilers of two platforms cannot share a process,
and either may end the process, so each runs in its own process.
"""

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import tree_structure

from minixla.core.errors import AttributeValueError, TransformError, explain
from minixla.engine.foreign_code import LIBRARIES
from minixla.engine.subprocesses import Helper, HelperDied
from minixla.typing import PyTree

_SUBJECT = "platform"
_ADVICE = "Pass 'tpu v5e:2x2' (four chips; 'tpu v5e:16x16' has 256), or 'gpu h100' ('gpu h100:4' "
_ADVICE += "is one machine with four, 'gpu h100:32x8' 32 machines with eight each); packages: "
_ADVICE += "pip install --no-deps --target FOLDER libtpu jax-cuda12-plugin jax-cuda12-pjrt "
_ADVICE += "nvidia-cuda-nvcc-cu12, in the versions of the extra far, and MINIXLA_FAR=FOLDER."
_TARGET = re.compile(r"custom_call @([\w.$]+)")
_GPUS = {"h100": "h100.txtpb"}
#: Speeds of a chip according to Google: bytes per second of its memory (819 GB/s), and cycles per
#: second. Four arrays of 128 x 128 multipliers, two operations each, do 197 Tflops at 1.5 GHz.
_SPEEDS = {"v5e": {"bytes": 819e9, "cycles": 1.5e9}}


class Platform(NamedTuple):
    """Devices to compile for."""

    kind: str  # JAX's name for the platform, tpu or cuda
    model: str  # its chip, such as v5e or h100
    topology: str  # chips in each direction, such as 2x2; for GPUs: machines and GPUs per machine

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(map(int, self.topology.split("x")))

    def __str__(self) -> str:
        if self.kind == "tpu":
            return f"tpu {self.model}:{self.topology}"
        return f"gpu {self.model}" + (f":{self.topology}" if self.size > 1 else "")


def platform_named(name: str) -> Platform:
    """Return the platform for a name such as tpu, tpu v5e:4x4, gpu, gpu h100, gpu h100:8.

    Raises:
        AttributeValueError: the name is not a platform.
    """
    kind, _, model = str(name).strip().lower().partition(" ")
    model, _, topology = model.strip().partition(":")
    sizes = topology.split("x") if topology else []
    if all(size.isdigit() for size in sizes):
        if kind == "tpu":
            return Platform("tpu", model or "v5e", topology or "2x2")
        if kind == "gpu" and (model or "h100") in _GPUS and len(sizes) <= 2:
            return Platform("cuda", model or "h100", "x".join([*"11", *sizes][-2:]))
    raise explain(AttributeValueError, _SUBJECT, f"{name!r} is not a platform", advice=_ADVICE)


def seconds_on(platform: Platform, numbers: Mapping[str, float]) -> dict[str, float]:
    """Estimate the seconds that a chip needs from the numbers of XLA.

    Return `seconds_by_bytes` and `seconds_by_cycles`, or nothing if the chip's speeds are not
    known. Both ignore the time in which one chip waits for another.
    """
    speeds = _SPEEDS.get(platform.model, {})
    pairs = speeds.items()
    return {f"seconds_by_{unit}": numbers[unit] / n for unit, n in pairs if unit in numbers}


def far_devices(name: str) -> list[Any]:
    """Return the devices of a platform; JAX compiles for them, but nothing runs on them.

    Args:
        name: see `platform_named`.

    Raises:
        AttributeValueError: the name is not a platform.
        TransformError: a package is missing, or does not know the devices.
    """
    platform = platform_named(name)
    folder = os.environ.get("MINIXLA_FAR")
    if folder:
        sys.path.append(folder)
    try:
        make = _tpus if platform.kind == "tpu" else _gpus
        return list(make(platform).devices)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        problem = f"the compiler for {platform} is not available: {error}"
        raise explain(TransformError, _SUBJECT, problem, advice=_ADVICE) from error


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the package {name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _tpus(platform: Platform) -> Any:
    os.environ |= {
        "TPU_LIBRARY_PATH": str(_package("libtpu") / "libtpu.so"),
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        # Nothing runs, so any number of processes may compile at the same time.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    name = f"{platform.model}:{platform.topology}"
    return topologies.get_topology_desc(platform="tpu", topology_name=name)


def _gpus(platform: Platform) -> Any:
    from jaxlib import xla_client  # needed only to compile for a GPU

    assembler = _package("nvidia.cuda_nvcc")
    flags = f"--xla_gpu_cuda_data_dir={assembler} --xla_gpu_autotune_level=0"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".lstrip()
    plugin = _package("jax_plugins.xla_cuda12") / "xla_cuda_plugin.so"
    library = xla_client.load_pjrt_plugin_dynamically("cuda", str(plugin))
    xla_client.initialize_pjrt_plugin("cuda")
    # JAX's own kernels that programs call; the plugin registers them like this if there is a GPU.
    kernels = import_module("jax_cuda12_plugin.cuda_plugin_extension")
    register = partial(kernels.register_custom_call_target, library)
    xla_client.register_custom_call_handler("CUDA", register)
    for name, code in kernels.ffi_handlers().items():
        xla_client.register_custom_call_target(name, code, platform="CUDA", api_version=1)
    figures = Path(__file__).with_name(_GPUS[platform.model]).read_text()
    described: Any = xla_client.make_c_api_device_topology(
        library, str(platform), target_config=figures, topology=f"1x{platform.topology}"
    )
    return topologies.TopologyDescription(described._make_compile_only_devices())


def compiled_for(devices: list[Any], exported: bytes) -> Any:
    """Compile a program of `jax.export` for as many devices as it was exported for."""
    program = jax.export.deserialize(bytearray(exported))
    assigned = devices[: program.nr_devices]
    named = [sharding for sharding in program._in_named_shardings if sharding is not None]
    mesh = Mesh(np.array(assigned), ("device",))
    if named:
        mesh = Mesh(np.array(assigned).reshape(named[0].mesh.axis_sizes), named[0].mesh.axis_names)
    everywhere = NamedSharding(mesh, PartitionSpec())
    shardings = [sharding or everywhere for sharding in program.in_shardings_jax(mesh)]
    flat = jax.jit(
        lambda *leaves: jax.tree.leaves(program.call(*leaves)),
        in_shardings=tuple(shardings),
        out_shardings=[sharding or everywhere for sharding in program.out_shardings_jax(mesh)],
    )
    return flat.lower(*[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.in_avals]).compile()


# The largest programs take minutes.
_SECONDS = 1800.0


class Refused(Exception):
    """Error for a program that XLA does not compile for a platform, with XLA's message."""


class Compiled(NamedTuple):
    """A program compiled for a platform."""

    #: Numbers for one device, if XLA returns them: `flops`, `transcendentals`, `bytes` accessed,
    #: `seconds`; bytes of `arguments`, `results` and `temporary` arrays, and the `peak` of all.
    numbers: dict[str, float]
    text: str  # the HLO after all XLA passes


# XLA's names of the numbers.
_COUNTS = {"flops": "flops", "transcendentals": "transcendentals"}
_COUNTS |= {"bytes": "bytes accessed", "seconds": "optimal_seconds"}
_SIZES = {"arguments": "argument", "results": "output", "temporary": "temp"}


def analysed(compiled: Any) -> Compiled:
    """Return the costs, sizes and text of a `jax.stages.Compiled`."""
    costs, sizes = compiled.cost_analysis() or {}, compiled.memory_analysis()
    numbers = {ours: costs[name] for ours, name in _COUNTS.items() if costs.get(name, -1) >= 0}
    if sizes is not None:
        memory = {ours: getattr(sizes, f"{name}_size_in_bytes") for ours, name in _SIZES.items()}
        numbers |= memory | {"peak": sum(memory.values()) - sizes.alias_size_in_bytes}
    return Compiled({name: float(number) for name, number in numbers.items()}, compiled.as_text())


def exported_for(
    platform: Platform,
    jitted: Any,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree] | None = None,
) -> bytes:
    """Export a jitted function of minixla or JAX for these arguments, for `compile_for`."""
    targets: set[str] = set()
    while True:
        # JAX keeps some custom calls stable for years; here the export is not stored.
        checks = [jax.export.DisabledSafetyCheck.custom_call(target) for target in targets]
        export = jax.export.export(jitted, platforms=[platform.kind], disabled_checks=checks)
        try:
            exported = export(*args, **(kwargs or {}))
            # XLA takes single arrays, and not every structure can be serialized.
            donated, made = (tuple(range(len(x))) for x in (exported.in_avals, exported.out_avals))
            trees = {"in_tree": tree_structure((donated, {})), "out_tree": tree_structure(made)}
            return bytes(replace(exported, **trees).serialize())
        except (ImportError, NotImplementedError, ValueError) as error:
            if targets.issuperset(missing_targets := _TARGET.findall(str(error))):
                name = getattr(jitted, "__name__", "function")
                problem = f"the program cannot be sent to the compiler for {platform}: {error}"
                advice = "Remove prints and other calls of Python functions."
                if isinstance(error, ImportError):
                    advice = "Run: pip install 'minixla[export]'."
                raise explain(TransformError, name, problem, advice=advice) from error
            targets.update(missing_targets)


def compile_for(platform: Platform, exported: bytes) -> Compiled:
    """Compile a program of `jax.export` for a platform; raise Refused if XLA fails."""
    try:
        libraries = [(target, *path) for target, path in LIBRARIES.items()]
        code = [library for library in libraries if library[-1] == platform.kind]
        reply, _ = _helper(platform).ask(code, _SECONDS, exported)
    except HelperDied as death:
        raise Refused(str(death)) from death
    if "missing" in reply:
        raise TransformError(reply["missing"])
    if "problem" in reply:
        raise Refused(reply["problem"])
    return Compiled(**reply)


@cache
def _helper(platform: Platform) -> Helper:
    return Helper(str(Path(__file__).with_name("cross_compile_process.py")), str(platform))
