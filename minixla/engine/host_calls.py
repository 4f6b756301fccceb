"""Calls of Python functions from compiled programs, and the order of side effects in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.interpreters import mlir

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph, inner_first
from minixla.core.operation import Operation
from minixla.core.shapes import TOKEN, AnyShape, Shape
from minixla.engine.foreign_code import prepare_target
from minixla.engine.jax_private import (
    Effect,
    SdyArray,
    SdyArrayList,
    ShardingContext,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    ir,
    lowerable_effects,
    ordered_effects,
    partial_eval_kept_effects,
    remat_allowed_effects,
    set_sharding,
)
from minixla.engine.platform_text import PlatformEmitter, target_on
from minixla.legalize import Target
from minixla.typing import ArrayLike

_TARGETS = {"cpu": "xla_ffi_python_cpu_callback"}
_TARGETS |= dict.fromkeys(("cuda", "rocm"), "xla_ffi_python_gpu_callback")


class _Effect(Effect):
    """An effect that equals every other effect of its class; jax.export creates new ones."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __str__(self) -> str:
        return f"minixla {type(self).__name__}"


class SideEffect(_Effect):
    """JAX's effect for a program with side effects: JAX must not drop, repeat or reorder it."""


class Shown(_Effect):
    """JAX's effect for a program whose side effects only display values: JAX must not drop it."""


#: Programs with this effect run in call order, on one device.
SIDE_EFFECT = SideEffect()
#: Programs with this effect run in any order, on any number of devices.
SHOWN = Shown()
ordered_effects.add_type(SideEffect)
for _known in (SideEffect, Shown):
    lowerable_effects.add_type(_known)
    control_flow_allowed_effects.add_type(_known)
    custom_derivatives_allowed_effects.add_type(_known)
remat_allowed_effects.add_type(Shown)
partial_eval_kept_effects.add_type(Shown)


def effect_of(graph: Graph) -> Effect | None:
    """Return JAX's effect for the side effects of a program."""
    if not graph.has_side_effect:
        return None
    return SIDE_EFFECT if _is_ordered(graph) else SHOWN


@inner_first
def _is_ordered(graph: Graph) -> bool:
    """Return whether a side effect must be ordered with the side effects of other programs."""
    plain = [step for step in graph.instructions if not step.op.computations]
    is_own = any(step.has_side_effect and getattr(step.op, "ordered", True) for step in plain)
    return is_own or any(map(_is_ordered, graph.computations))


_FIRST = SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=(0,))


def place_host_calls(module_context: mlir.ModuleContext, function: Any) -> None:
    """Place the host calls of a partitioned program on the first device, where they run once.

    Calls inside manual computations run on each device.
    """
    if not isinstance(module_context.axis_context, ShardingContext):
        return

    def place(operation: Any) -> ir.WalkResult:
        if operation.name == "sdy.manual_computation":
            return ir.WalkResult.SKIP
        target = operation.attributes.get("call_target_name")
        if target is not None and ir.StringAttr(target).value in _TARGETS.values():
            on_first = SdyArrayList((_FIRST,) * len(operation.results))
            set_sharding(module_context, operation, on_first)
        return ir.WalkResult.ADVANCE

    function.walk(place)


def target_of(module_context: mlir.ModuleContext) -> Target | None:
    """Return the target that JAX lowers a module for; None if there are several platforms."""
    if len(module_context.platforms) != 1:
        return None
    devices = getattr(module_context.axis_context, "num_devices", 1)
    is_exported = module_context.lowering_parameters.for_export
    return target_on(module_context.platforms[0], devices, is_exported)


class HostEmitter(PlatformEmitter):
    """An emitter for the module that JAX is lowering; the program may call Python functions."""

    calls_host = True
    inlines_meshes = True

    def __init__(self, module_context: Any, prefix: str, threads_main: bool) -> None:
        self.threads_main = threads_main
        self._context: mlir.ModuleContext = module_context
        super().__init__(target_of(module_context), locations=True, prefix=prefix)

    def foreign_call(self, target: str, operation: Operation | None = None) -> None:
        """Prepare the compiled code; if XLA does not know it, the error has the source line."""
        prepare_target(target, self.source, operation)

    def host_call(
        self,
        function: Callable[..., Sequence[np.ndarray]],
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        has_side_effect: bool,
    ) -> list[str]:
        """Emit a custom call that runs `function` in this process."""
        target = _TARGETS.get(self.platform or "")
        if target is None:
            problem = "a program that calls Python functions must be for one known platform"
            details = [f"platforms: {', '.join(self._context.platforms)}"]
            advice = f"Compile it for one of {', '.join(_TARGETS)}."
            raise explain(TransformError, "jit", problem, details, advice)
        kept = [shape.dtype for shape in shapes if isinstance(shape, Shape)]

        def callback(*args: ArrayLike) -> tuple[ArrayLike, ...]:
            arrays = args[1:] if has_side_effect else args
            arrays_in = [
                np.asarray(x).astype(d, copy=False) for x, d in zip(arrays, kept, strict=True)
            ]
            arrays_out = tuple([np.asarray(array) for array in function(*arrays_in)])
            return (args[0], *arrays_out) if has_side_effect else arrays_out

        self._context.add_host_callback(callback)
        if has_side_effect:
            operands = [self.take_token(), *operands]
            shapes, results = [TOKEN, *shapes], [TOKEN, *results]
        index = len(self._context.host_callbacks) - 1
        arguments = operands, shapes, results, f"{{index = {index} : ui64}}"
        names = self.custom_call(target, *arguments, has_side_effect=has_side_effect)
        return list(self.give_token(names)) if has_side_effect else names
