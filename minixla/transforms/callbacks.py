"""pure_callback: a Python function of NumPy arrays as a part of a program."""

from collections.abc import Callable

import jax
import jax.core
import numpy as np

from minixla.core.argument_kinds import checks_kinds
from minixla.core.attributes import Attribute, Boolean, Function, attribute
from minixla.core.errors import AttributeValueError, ShapeError, TransformError, explain
from minixla.core.shapes import Shape, shape_of_data
from minixla.core.tracing import current_trace
from minixla.engine import stage_for_jax
from minixla.transforms.arguments import checked_function
from minixla.transforms.debugging import HostCallback, OfArrays
from minixla.transforms.pytree_paths import leaf_shapes
from minixla.typing import PyTree
from minixla_ops.helpers.batch_dimensions import add_batch, batch_size, move_dimension
from minixla_ops.helpers.shorthand import array_shape

_METHODS = (None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all")


class PureCallback(HostCallback):
    """What a Python function gives for the operands' values, on which alone its results depend."""

    no_derivative = "a Python function is called, and only its values are known"
    callback: Callable[..., PyTree] = attribute(Function(), hlo=None)
    results: tuple[Shape, ...] = attribute(Attribute(), hlo=None)
    vmap_method: str | None = attribute(Attribute(), default=None, hlo=None)

    def shape(self, *args):
        return self.results

    def run(self, *args):
        if any(isinstance(argument, jax.core.Tracer) for argument in (jax.numpy.zeros(()), *args)):
            return stage_for_jax(self)(*args)
        lift = current_trace().lift
        return tuple(map(lift, self.reference(*[np.asarray(lift(argument)) for argument in args])))

    def reference(self, *args):
        results = [np.asarray(x) for x in jax.tree.leaves(self.callback(*map(np.copy, args)))]
        shapes = list(map(shape_of_data, results))
        if shapes != list(self.results):
            problem = "the Python function returned something else than was declared"
            details = [f"returned: {', '.join(map(str, shapes)) or 'nothing'}"]
            details += [f"declared: {', '.join(map(str, self.results)) or 'nothing'}"]
            advice = "Give result_shape_dtypes of its results, or convert these: x.astype(dtype)."
            raise explain(ShapeError, "pure_callback", problem, details, advice)
        pairs = zip(results, self.results, strict=True)
        return tuple([x.astype(shape.dtype, copy=False) for x, shape in pairs])

    def batch(self, operands, dimensions):
        if self.vmap_method is None:
            problem = "it is called over a batch, and vmap_method does not say how"
            advice = f"Give vmap_method, one of {', '.join(map(str, _METHODS[1:]))}."
            raise explain(TransformError, "pure_callback", problem, (), advice)
        if self.vmap_method.startswith("sequential"):
            return super().batch(operands, dimensions)
        size = batch_size(operands, dimensions)
        repeats = size if self.vmap_method == "broadcast_all" else 1
        moved = [
            add_batch(x, repeats, 0) if at is None else move_dimension(x, at, 0)
            for x, at in zip(operands, dimensions, strict=True)
        ]
        results = tuple([x.with_dimensions((size, *x.dimensions)) for x in self.results])
        return self(*moved, results=results), (0,) * len(results)


class IoCallback(PureCallback):
    """Calls a Python function with results and effects (JAX: `jax.experimental.io_callback`).

    It is never dropped or repeated. Calls with `ordered` also keep their order across programs.
    """

    has_side_effect = True
    ordered: bool = attribute(Boolean(), default=False, hlo=None)

    def batch(self, operands, dimensions):
        if self.ordered:
            problem = "an ordered call cannot be batched"
            advice = "Give ordered=False, or call it outside vmap."
            raise explain(TransformError, "io_callback", problem, advice=advice)
        return HostCallback.batch(self, operands, dimensions)


@checks_kinds
def pure_callback(
    callback: Callable[..., PyTree],
    result_shape_dtypes: PyTree,
    *args: PyTree,
    vmap_method: str | None = None,
    **kwargs: PyTree,
) -> PyTree:
    """What a Python function gives, called when the program runs (JAX: pure_callback).

    The function's results must depend on its arguments alone: it may be called more than once (on
    several devices by each, with whole arrays), or not at all. It has no derivative: give one with
    `mx.custom_jvp` or `mx.custom_vjp`.

    Args:
        callback: a function of pytrees of NumPy arrays. It must not call JAX, which may be waiting
            for it.
        result_shape_dtypes: a tree like its result, of anything with `shape` and `dtype`.
        args: its arguments; leaves that are no arrays are passed on as they are.
        vmap_method: how it is called over a batch: `sequential` or `sequential_unrolled`, once for
            each member; `expand_dims`, once, with the batch in front, of size 1 for arguments that
            have none; `broadcast_all`, once, with all arguments repeated. None: not at all.
        kwargs: more arguments by name.

    Returns:
        A tree like `result_shape_dtypes` of arrays.

    Raises:
        TransformError: `callback` is no function, or is called over a batch without a method.
        AttributeValueError: there is no such method.
        ShapeError: it gives other arrays than was declared.

    Example:
        >>> result = jax.ShapeDtypeStruct((2,), np.float32)
        >>> mx.jit(lambda x: mx.pure_callback(np.square, result, x))(np.float32([2, 3]))
        Array([4., 9.], dtype=float32)
    """
    subject = "pure_callback"
    if vmap_method not in _METHODS:
        problem = f"there is no vmap_method {vmap_method!r}"
        advice = f"Give one of {', '.join(map(str, _METHODS))}."
        raise explain(AttributeValueError, subject, problem, (), advice)
    declared, tree = jax.tree.flatten(result_shape_dtypes)
    where = [f"result {number}" for number in range(len(declared))]
    shapes = tuple(map(array_shape, leaf_shapes(subject, declared, lambda: where)))
    function, values = OfArrays.of(checked_function(callback, subject), args, kwargs)
    return jax.tree.unflatten(tree, PureCallback(function, shapes, vmap_method)(*values))
