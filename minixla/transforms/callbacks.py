"""pure_callback: a Python function of NumPy arrays as part of a program."""

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
    """Call a Python function whose results depend only on the operands' values."""

    no_derivative = "only the values of a Python function are known"
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
            problem = "the Python function's results must match the declaration"
            details = [f"returned: {', '.join(map(str, shapes)) or 'nothing'}"]
            details += [f"declared: {', '.join(map(str, self.results)) or 'nothing'}"]
            advice = (
                "Declare result_shape_dtypes of its results, or convert these: x.astype(dtype)."
            )
            raise explain(ShapeError, "pure_callback", problem, details, advice)
        pairs = zip(results, self.results, strict=True)
        return tuple([x.astype(shape.dtype, copy=False) for x, shape in pairs])

    def batch(self, operands, dimensions):
        if self.vmap_method is None:
            problem = "batching requires vmap_method"
            advice = f"Pass vmap_method, one of {', '.join(map(str, _METHODS[1:]))}."
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
    """Call a Python function with results and side effects (JAX: `jax.experimental.io_callback`).

    It is never dropped or repeated. Calls with `ordered` also keep their order across programs.
    """

    has_side_effect = True
    ordered: bool = attribute(Boolean(), default=False, hlo=None)

    def batch(self, operands, dimensions):
        if self.ordered:
            problem = "ordered calls cannot be batched"
            advice = "Pass ordered=False, or call it outside vmap."
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
    """Call a Python function when the program runs (JAX: pure_callback).

    The function's results must depend only on its arguments. It may be called several times (with
    several devices by each, with whole arrays), or not at all. It has no derivative: define one
    with `mx.custom_jvp` or `mx.custom_vjp`.

    Args:
        callback: a function of pytrees of NumPy arrays. It must not call JAX, which may be waiting
            for it.
        result_shape_dtypes: a tree like its result, of values with `shape` and `dtype`.
        args: its arguments; leaves that are not arrays are passed unchanged.
        vmap_method: how it is called for a batch. `sequential` and `sequential_unrolled` call it
            for each batch element. `expand_dims` calls it once with leading batch dimensions, of
            size 1 for unbatched arguments. `broadcast_all` calls it once with all arguments
            repeated. None does not support batching.
        kwargs: keyword arguments.

    Returns:
        A tree like `result_shape_dtypes` of arrays.

    Raises:
        TransformError: `callback` is not a function, or is batched without a method.
        AttributeValueError: `vmap_method` is unknown.
        ShapeError: its results do not match the declaration.

    Example:
        >>> result = jax.ShapeDtypeStruct((2,), np.float32)
        >>> mx.jit(lambda x: mx.pure_callback(np.square, result, x))(np.float32([2, 3]))
        Array([4., 9.], dtype=float32)
    """
    subject = "pure_callback"
    if vmap_method not in _METHODS:
        problem = f"unknown vmap_method {vmap_method!r}"
        advice = f"Pass one of {', '.join(map(str, _METHODS))}."
        raise explain(AttributeValueError, subject, problem, (), advice)
    declared, tree = jax.tree.flatten(result_shape_dtypes)
    where = [f"result {number}" for number in range(len(declared))]
    shapes = tuple(map(array_shape, leaf_shapes(subject, declared, lambda: where)))
    function, values = OfArrays.of(checked_function(callback, subject), args, kwargs)
    return jax.tree.unflatten(tree, PureCallback(function, shapes, vmap_method)(*values))
