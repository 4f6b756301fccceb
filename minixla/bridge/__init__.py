"""JAX's primitives as operations, so that JAX code runs inside our transformations.

Our traces derive from JAX's Trace. While one is current, JAX passes it each primitive that a
function binds. `core.tracing.Trace` calls the functions here, which turn them into operations.

    primitives: the entry point, which tries the rules for a primitive in order
    values: conversion between JAX values and our operands, typed random keys
    operations: primitives with a corresponding operation
    lowered: all others, as the program that JAX lowers them to, or with JAX's own rules
    programs: primitives that contain programs: calls, loops, branches
    custom_rules: functions with user-defined derivative rules
    axes: collectives over named axes
    effects: mutable arrays, callbacks
    platforms, primitive_calls: code that differs between platforms, primitives that stay whole
    shard_maps: jax.shard_map
"""

from minixla.bridge.custom_rules import process_custom_jvp_call, process_custom_vjp_call
from minixla.bridge.effects import run_with_refs
from minixla.bridge.primitives import process_primitive
from minixla.bridge.shard_maps import process_shard_map
from minixla.bridge.values import staged

__all__ = ["process_custom_jvp_call", "process_custom_vjp_call", "process_primitive"]
__all__ += ["process_shard_map", "run_with_refs", "staged"]
