"""TPUs and GPUs that are not here: XLA compiles for them on any machine, and says what it costs.

The packages are those of the extra `far`. Where JAX finds them by itself it looks for devices at
every start, so they may stand in a folder of their own, which the environment variable MINIXLA_FAR
names. Compilers of two platforms do not live in one process, and either may end it: each has one.
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
_ADVICE = "Give 'tpu v5e:2x2' (four chips; 'tpu v5e:16x16' has 256), or 'gpu h100' ('gpu h100:4' "
_ADVICE += "is four in a machine, 'gpu h100:32x8' 32 machines of eight); packages: "
_ADVICE += "pip install --no-deps --target FOLDER libtpu jax-cuda12-plugin jax-cuda12-pjrt "
_ADVICE += "nvidia-cuda-nvcc-cu12, in the versions of the extra far, and MINIXLA_FAR=FOLDER."
_TARGET = re.compile(r"custom_call @([\w.$]+)")
_GPUS = {"h100": "h100.txtpb"}
#: What a chip does in a second, by Google's figures: bytes of its memory (819 GB/s), and cycles
#: (197 Tflops by four arrays of 128 x 128 multipliers, two operations each, are 1.5 GHz).
_SPEEDS = {"v5e": {"bytes": 819e9, "cycles": 1.5e9}}


class Platform(NamedTuple):
    """Devices to compile for."""

    kind: str  # what JAX calls the platform, tpu or cuda
    model: str  # of its chips, such as v5e or h100
    topology: str  # how many chips in each direction, such as 2x2; machines and GPUs in each

    @property
    def size(self) -> int:
        """How many devices there are."""
        return math.prod(map(int, self.topology.split("x")))

    def __str__(self) -> str:
        if self.kind == "tpu":
            return f"tpu {self.model}:{self.topology}"
        return f"gpu {self.model}" + (f":{self.topology}" if self.size > 1 else "")


def platform_named(name: str) -> Platform:
    """The platform that a name says, such as tpu, tpu v5e:4x4, gpu, gpu h100, gpu h100:8.

    Raises:
        AttributeValueError: it says none.
    """
    kind, _, model = str(name).strip().lower().partition(" ")
    model, _, topology = model.strip().partition(":")
    sizes = topology.split("x") if topology else []
    if all(size.isdigit() for size in sizes):
        if kind == "tpu":
            return Platform("tpu", model or "v5e", topology or "2x2")
        if kind == "gpu" and (model or "h100") in _GPUS and len(sizes) <= 2:
            return Platform("cuda", model or "h100", "x".join([*"11", *sizes][-2:]))
    raise explain(AttributeValueError, _SUBJECT, f"{name!r} is no platform", advice=_ADVICE)


def seconds_on(platform: Platform, numbers: Mapping[str, float]) -> dict[str, float]:
    """`seconds_by_bytes` and `seconds_by_cycles` of a chip, by numbers of those that XLA gives.

    Both leave out what one chip waits for another. Empty where the chip's speeds are not known.
    """
    speeds = _SPEEDS.get(platform.model, {})
    pairs = speeds.items()
    return {f"seconds_by_{unit}": numbers[unit] / n for unit, n in pairs if unit in numbers}


def far_devices(name: str) -> list[Any]:
    """The devices of a platform, for which JAX compiles in this process; nothing runs on them.

    Args:
        name: see `platform_named`.

    Raises:
        AttributeValueError: it is no platform's name.
        TransformError: a package is missing, or has no such devices.
    """
    platform = platform_named(name)
    folder = os.environ.get("MINIXLA_FAR")
    if folder:
        sys.path.append(folder)
    try:
        make = _tpus if platform.kind == "tpu" else _gpus
        return list(make(platform).devices)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        problem = f"there is nothing to compile for {platform} with: {error}"
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
        # Nothing runs: any number of processes may compile at a time.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    name = f"{platform.model}:{platform.topology}"
    return topologies.get_topology_desc(platform="tpu", topology_name=name)


def _gpus(platform: Platform) -> Any:
    from jaxlib import xla_client  # nobody needs it but who compiles for a GPU

    assembler = _package("nvidia.cuda_nvcc")
    flags = f"--xla_gpu_cuda_data_dir={assembler} --xla_gpu_autotune_level=0"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".lstrip()
    plugin = _package("jax_plugins.xla_cuda12") / "xla_cuda_plugin.so"
    library = xla_client.load_pjrt_plugin_dynamically("cuda", str(plugin))
    xla_client.initialize_pjrt_plugin("cuda")
    # Kernels of JAX's own that programs call, as the plugin makes them known where there is a GPU.
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
    """What XLA makes of a program of `jax.export` for devices, as many as it was exported for."""
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
    """XLA does not compile a program for a platform; the message is its own."""


class Compiled(NamedTuple):
    """What XLA makes of a program for a platform."""

    #: Of one device, where XLA tells them: `flops`, `transcendentals`, `bytes` read and written,
    #: `seconds`; bytes of `arguments`, `results` and `temporary` arrays, and at the `peak` of all.
    numbers: dict[str, float]
    text: str  # its HLO after all of XLA's passes


# XLA's names by ours.
_COUNTS = {"flops": "flops", "transcendentals": "transcendentals"}
_COUNTS |= {"bytes": "bytes accessed", "seconds": "optimal_seconds"}
_SIZES = {"arguments": "argument", "results": "output", "temporary": "temp"}


def analysed(compiled: Any) -> Compiled:
    """What a `jax.stages.Compiled` says of itself."""
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
    """A jitted function of ours or JAX's for arguments like these, as `compile_for` takes it."""
    targets: set[str] = set()
    while True:
        # JAX keeps some custom calls as they are for years; here nothing is kept.
        checks = [jax.export.DisabledSafetyCheck.custom_call(target) for target in targets]
        export = jax.export.export(jitted, platforms=[platform.kind], disabled_checks=checks)
        try:
            exported = export(*args, **(kwargs or {}))
            # XLA sees arrays one by one, and not every structure can be serialized.
            donated, made = (tuple(range(len(x))) for x in (exported.in_avals, exported.out_avals))
            trees = {"in_tree": tree_structure((donated, {})), "out_tree": tree_structure(made)}
            return bytes(replace(exported, **trees).serialize())
        except (ImportError, NotImplementedError, ValueError) as error:
            if targets.issuperset(missing_targets := _TARGET.findall(str(error))):
                name = getattr(jitted, "__name__", "function")
                problem = f"the program cannot be sent to the compiler for {platform}: {error}"
                advice = "Leave prints and other calls of Python out."
                if isinstance(error, ImportError):
                    advice = "Run: pip install 'minixla[export]'."
                raise explain(TransformError, name, problem, advice=advice) from error
            targets.update(missing_targets)


def compile_for(platform: Platform, exported: bytes) -> Compiled:
    """Compiles what `jax.export` made for a platform; Refused if XLA does not, or dies of it."""
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
