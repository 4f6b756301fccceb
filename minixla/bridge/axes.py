"""JAX's collectives over named axes of our transformations."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import primitives

from minixla.bridge.passing import PASS, bound_at, passes
from minixla.bridge.values import operand
from minixla.core.state import state
from minixla.core.tracing import Trace
from minixla.engine import jax_private as private
from minixla.engine.random_keys import as_key
from minixla.transforms import named_axes
from minixla_ops.programs.computations import sum_over

Parameters = dict[str, Any]


def _names(axes: Any) -> Sequence[Any]:
    return axes if isinstance(axes, (tuple, list)) else (axes,)


def _is_ours(axes: Any) -> bool:
    names = [name for name, _ in state.axes]
    return any(name in names for name in _names(axes) if not isinstance(name, int))


def _one(name: Any) -> Any:
    return name[0] if isinstance(name, (tuple, list)) and len(name) == 1 else name


def _reduction(over_axis: Callable[..., Any], over_dimensions: Callable[..., Any]) -> Any:
    def rule(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
        axes, groups = params["axes"], params.get("axis_index_groups")
        if not _is_ours(axes) and passes(ours, args):
            return PASS
        value = operand(args[0])
        places = tuple([axis for axis in axes if isinstance(axis, int)])
        value = over_dimensions(value, places) if places else value
        for name in [axis for axis in axes if not isinstance(axis, int)]:
            value = over_axis(value, name, axis_index_groups=groups)
        return value

    return rule


def _collective(function: Callable[..., Any], **parameters: str) -> Any:
    """Return the rule that calls a collective; `parameters` maps arguments to the primitive's."""

    def rule(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
        if not _is_ours(params["axis_name"]) and passes(ours, args):
            return PASS
        options = {name: params[parameter] for name, parameter in parameters.items()}
        result = function(operand(args[0]), _one(params["axis_name"]), **options)
        return as_key(result, jax.typeof(args[0]).dtype)

    return rule


def _axis_index(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    if _is_ours(params["axis_name"]):
        return named_axes.axis_index(params["axis_name"])
    return bound_at(ours.parent.for_jax, primitives.axis_index_p, args, params)


def _unchanged(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    return PASS if passes(ours, args) else args[0]


_SUM = _reduction(named_axes.psum, sum_over)
_GROUPS = {"axis_index_groups": "axis_index_groups", "tiled": "tiled"}

RULES = {
    primitives.psum_p: _SUM,
    private.psum_invariant_p: _SUM,
    primitives.pmax_p: _reduction(named_axes.pmax, lambda x, at: jax.numpy.max(x, at)),
    primitives.pmin_p: _reduction(named_axes.pmin, lambda x, at: jax.numpy.min(x, at)),
    private.pvary_p: _unchanged,
    primitives.axis_index_p: _axis_index,
    primitives.ppermute_p: _collective(named_axes.ppermute, perm="perm"),
    primitives.all_gather_p: _collective(
        named_axes.all_gather, axis="all_gather_dimension", **_GROUPS
    ),
    private.reduce_scatter_p: _collective(
        named_axes.psum_scatter, scatter_dimension="scatter_dimension", **_GROUPS
    ),
    primitives.all_to_all_p: _collective(
        named_axes.all_to_all, split_axis="split_axis", concat_axis="concat_axis", **_GROUPS
    ),
}
