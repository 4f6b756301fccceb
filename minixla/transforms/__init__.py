"""Transformations of functions: jit, derivatives, batching, evaluation."""

import minixla.engine as _engine  # noqa: F401 - the default evaluator
import minixla.numpy.array_methods as _array_methods  # noqa: F401 - the methods of tracers
from minixla.transforms.checkpoint import checkpoint, checkpoint_name, checkpoint_policies
from minixla.transforms.control_flow import cond, fori_loop, switch, while_loop
from minixla.transforms.custom_derivatives import custom_jvp, custom_vjp, stop_gradient
from minixla.transforms.debug_nans import debug_infs, debug_nans
from minixla.transforms.debugging import debug_callback, debug_print
from minixla.transforms.evaluation import make_graph, reference
from minixla.transforms.gradients import grad, jvp, value_and_grad, vjp
from minixla.transforms.jacobians import hessian, jacfwd, jacrev, linearize
from minixla.transforms.jit import jit
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
from minixla.transforms.simulate import simulate
from minixla.transforms.vmap import vmap

# By module, in the order above.
__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies"]
__all__ += ["cond", "fori_loop", "switch", "while_loop"]
__all__ += ["custom_jvp", "custom_vjp", "stop_gradient"]
__all__ += ["debug_infs", "debug_nans", "debug_callback", "debug_print"]
__all__ += ["make_graph", "reference", "grad", "jvp", "value_and_grad", "vjp"]
__all__ += ["hessian", "jacfwd", "jacrev", "linearize", "jit", "checking_leaks"]
__all__ += ["all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin"]
__all__ += ["ppermute", "psum", "psum_scatter", "pmap"]
__all__ += ["associative_scan", "map", "scan", "simulate", "vmap"]
