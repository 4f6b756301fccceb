"""Transformations of functions: jit, derivatives, batching, evaluation."""

# ruff: noqa: F401 - what is imported is public

import minixla.engine as _engine  # the default evaluator
import minixla.numpy.array_methods as _array_methods  # the methods of tracers
from minixla.transforms.callbacks import pure_callback
from minixla.transforms.checkpoint import checkpoint, checkpoint_name, checkpoint_policies
from minixla.transforms.checkpoint import checkpoint as remat
from minixla.transforms.control_flow import cond, fori_loop, switch, while_loop
from minixla.transforms.conversions import closure_convert, custom_gradient, linear_transpose
from minixla.transforms.custom_derivatives import custom_jvp, custom_vjp, stop_gradient
from minixla.transforms.debug_nans import debug_infs, debug_nans
from minixla.transforms.debugging import debug_callback, debug_print
from minixla.transforms.evaluation import (
    ensure_compile_time_eval,
    eval_shape,
    make_graph,
    reference,
)
from minixla.transforms.gradients import grad, jvp, value_and_grad, vjp
from minixla.transforms.jacobians import hessian, jacfwd, jacrev, linearize
from minixla.transforms.jacobians import jacrev as jacobian
from minixla.transforms.jit import jit
from minixla.transforms.layouts import device_put
from minixla.transforms.leak_checks import checking_leaks
from minixla.transforms.named_axes import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)
from minixla.transforms.pmap import pmap
from minixla.transforms.sequences import associative_scan, map, scan
from minixla.transforms.shard_map import shard_map
from minixla.transforms.simulate import simulate
from minixla.transforms.vmap import vmap

__all__ = [name for name, value in globals().items() if callable(value) and name[0] != "_"]  # pyright: ignore[reportUnsupportedDunderAll]  # computed
