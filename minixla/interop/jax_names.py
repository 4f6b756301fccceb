"""What programs take from JAX as it is: devices, arrays and their placement, settings, waiting."""

# ruff: noqa: F401 - what is imported is public

from jax import (
    Device,
    P,
    ShapeDtypeStruct,
    Shard,
    array_garbage_collection_guard,
    block_until_ready,
    clear_caches,
    config,
    copy_to_host_async,
    debug_key_reuse,
    default_backend,
    default_device,
    default_prng_impl,
    device_count,
    device_get,
    devices,
    disable_jit,
    effects_barrier,
    enable_x64,
    explain_cache_misses,
    float0,
    live_arrays,
    local_device_count,
    local_devices,
    log_compiles,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    make_mesh,
    print_environment_info,
    process_count,
    process_index,
    process_indices,
    thread_guard,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)

from minixla.interop.jax_meshes import NamedSharding, set_mesh

_NAMES = [name for name in globals() if name[0] != "_"]
__all__ = _NAMES  # pyright: ignore[reportUnsupportedDunderAll]  # computed
