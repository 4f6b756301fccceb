"""Functions of parts of arrays, applied to whole ones."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial, wraps
from itertools import zip_longest
from typing import Any

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.numpy import operands
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import axis_of, kind_of, lifted, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.operators import convert

_NAME = re.compile(r"\w+")


def _parsed(signature: str) -> list[list[tuple[str, ...]]]:
    """The names of dimensions of each argument, and of each result."""
    sides = re.sub(r"\s", "", str(signature)).split("->")
    lists = [_lists(side) for side in sides]
    if len(sides) != 2 or not sides[1] or None in lists:
        advice = 'Write it as in "(m,n),(n)->(m)".'
        problem = f"{signature!r} is no signature"
        raise operands.value_error("vectorize", problem, advice)
    return [side or [] for side in lists]


def _lists(side: str) -> list[tuple[str, ...]] | None:
    """Return the names in each pair of brackets of `(m,n),(n)`; None for other texts."""
    lists = [names.split(",") if names else [] for names in side[1:-1].split("),(")] if side else []
    is_written = side == f"({'),('.join(map(','.join, lists))})" if side else True
    names = [name for items in lists for name in items]
    return [*map(tuple, lists)] if is_written and all(map(_NAME.fullmatch, names)) else None


@documented(PARAMETERS)
def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `pyfunc` to all elements of arrays, which broadcast together.

    Args:
        pyfunc: a function of scalars, or of arrays with the dimensions in `signature`.
        excluded: positions and names of arguments that are passed on unchanged.
        signature: the dimensions of the other arguments and of the results, such as
            "(m,n),(n)->(m)"; leading dimensions are mapped over. Default: none.

    Returns:
        A function of arrays; None is passed on.

    Example:
        >>> np.vectorize(lambda x: x * x + 1)(np.arange(3))
        Array([1, 2, 5], dtype=int32)
        >>> np.vectorize(np.dot, signature="(n),(n)->()")(np.ones((2, 3)), np.arange(3))
        Array([3., 3.], dtype=float32)
    """
    for key in excluded if isinstance(excluded, Collection) else (excluded,):
        if key is excluded or not (key >= 0 if isinstance(key, int) else isinstance(key, str)):
            problem, advice = "an argument cannot be excluded", "Give a set of positions and names."
            raise operands.shape_error("vectorize", problem, advice, excluded=key)
    sides = None if signature is None else _parsed(signature)

    @wraps(transforms().arguments.checked_function(pyfunc, "numpy.vectorize"))
    def public(*args: Any, **options: Any) -> Any:
        named = [name for name in options if name not in excluded]
        given = [*args, *[options[name] for name in named]]
        counted = [at for at in range(len(given)) if at not in excluded or at >= len(args)]
        fixed = {at for at, x in enumerate(given) if x is None or at not in counted}
        others = {name: options[name] for name in options if name not in named}

        def function(*arrays: Any) -> Any:
            values = iter(arrays)
            whole = [given[at] if at in fixed else next(values) for at in range(len(given))]
            rest = zip(named, whole[len(args) :], strict=True)
            return pyfunc(*whole[: len(args)], **dict(rest), **others)

        arrays = [mnp.asarray(x) for at, x in enumerate(given) if at not in fixed]
        if sides is None:
            return _mapped(function, arrays, [()] * len(arrays))
        if len(sides[0]) != len(counted):
            problem = f"the signature has {len(sides[0])} arguments and {len(counted)} are given"
            raise operands.shape_error("vectorize", problem, "Give as many.", f"it is {signature}")
        pairs = zip(counted, sides[0], strict=True)
        names = [side for at, side in pairs if at not in fixed]
        sizes: dict[str, int] = {}
        for array, core in zip(arrays, names, strict=True):
            _check_sizes(array.shape, core, sizes)
        return _mapped(_checked(function, sides[1], sizes), arrays, names)

    return public


def _check_sizes(shape: Sequence[int], names: Sequence[str], sizes: dict[str, int]) -> None:
    """Raises ShapeError where the last sizes of a shape are not those of their names."""
    advice = "Each name stands for one size."
    if len(shape) < len(names):
        problem = f"an array of shape {tuple(shape)} has no dimensions {', '.join(names)}"
        raise operands.shape_error("vectorize", problem, advice)
    for name, size in zip(names, shape[len(shape) - len(names) :], strict=True):
        if sizes.setdefault(name, size) != size:
            problem = f"dimension {name} has size {size} here and {sizes[name]} elsewhere"
            raise operands.shape_error("vectorize", problem, advice)


def _checked(function: Callable[..., Any], names: Any, sizes: dict[str, int]) -> Callable[..., Any]:
    """A function whose results must have dimensions of these names."""

    def checked(*arrays: Any) -> Any:
        results = function(*arrays)
        listed = results if isinstance(results, tuple) else (results,)
        if len(listed) != len(names):
            problem = f"the function gives {len(listed)} results and the signature has {len(names)}"
            raise operands.shape_error("vectorize", problem, "Make them agree.")
        for result, core in zip(listed, names, strict=True):
            shape = operand_shape(result, "vectorize").dimensions
            if len(shape) != len(core):
                problem = f"a result has shape {shape} and dimensions ({', '.join(core)})"
                raise operands.shape_error("vectorize", problem, "Make them agree.")
            _check_sizes(shape, core, sizes)
        return results

    return checked


def _mapped(function: Callable[..., Any], arrays: Sequence[Any], names: Sequence[Any]) -> Any:
    """A function of arrays mapped over the dimensions before their named ones."""
    fronts = [x.shape[: x.ndim - len(core)] for x, core in zip(arrays, names, strict=True)]
    sizes = mnp.broadcast_shapes(*fronts)
    # A dimension of size 1 is not mapped: it would be repeated.
    ones = [tuple([at for at, size in enumerate(front) if size == 1]) for front in fronts]
    squeezed = [mnp.squeeze(x, axes) if axes else x for x, axes in zip(arrays, ones, strict=True)]
    added = []
    rows = zip_longest(*[front[::-1] for front in fronts], fillvalue=1)
    for place, row in enumerate(rows):
        axes = tuple([None if size == 1 else 0 for size in row])
        if any(axis == 0 for axis in axes):
            function = transforms().vmap(function, in_axes=axes)
        else:
            added.append(len(sizes) - 1 - place)
    results = function(*squeezed)
    if not added:
        return results
    expand = partial(mnp.expand_dims, axis=tuple(added))
    return tuple(map(expand, results)) if isinstance(results, tuple) else expand(results)


@documented(PARAMETERS)
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Apply a function of an array and an axis repeatedly, for each axis.

    If its result has one dimension less, the axis is inserted again with size 1.

    Args:
        func: a function of an array and an axis.
        axes: an axis or several.

    Example:
        >>> np.apply_over_axes(np.sum, np.ones((2, 3, 4)), (0, 2))
        Array([[[8.],
                [8.],
                [8.]]], dtype=float32)
    """
    transforms().arguments.checked_function(func, "numpy.apply_over_axes")
    for axis in operands.listed(axes):
        rank = operand_shape(a, "apply_over_axes").rank
        result = func(a, axis_of(axis, rank, "apply_over_axes"))
        found = operand_shape(result, "apply_over_axes").rank
        if found == rank - 1:
            result = mnp.expand_dims(result, axis)
        elif found != rank:
            problem = f"the function gives {found} dimensions for {rank}"
            raise operands.shape_error("apply_over_axes", problem, "Keep them, or take one away.")
        a = result
    return lifted(a)


@documented(PARAMETERS)
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Apply to each element the function of the last condition that is true for it.

    Args:
        x: an array.
        condlist: arrays of booleans of its shape, or one such array.
        funclist: for each condition a function of a scalar, `args` and `kw`, or a scalar. An
            additional one is the default, which is otherwise 0.
        *args: further arguments of the functions.
        **kw: keyword arguments of the functions.

    Returns:
        An array with the shape and type of `x`.

    Example:
        >>> x = np.array([-2.0, 3.0])
        >>> np.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: x + 10])
        Array([ 2., 13.], dtype=float32)
    """
    x, kind = mnp.asarray(x), kind_of(x, "piecewise")
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist] if operand_shape(condlist).rank <= x.ndim else mnp.unstack(condlist)
    elif condlist and not isinstance(condlist[0], (list, tuple)) and not mnp.ndim(condlist[0]):
        condlist = [condlist] if x.ndim else condlist
    functions = operands.listed(funclist)
    default = functions.pop() if len(functions) == len(condlist) + 1 else 0
    if len(functions) != len(condlist):
        problem = f"there are {len(condlist)} conditions and {len(functions)} functions"
        advice = "Give one for each, and one more for where none holds."
        raise operands.shape_error("piecewise", problem, advice)

    def branch(of: Any) -> Callable[[Any], Any]:
        return lambda value: convert(of(value, *args, **kw) if callable(of) else of, kind)

    number: Any = mnp.zeros(x.shape, "int32")
    for at, condition in enumerate(condlist, 1):
        number = mnp.where(mnp.astype(condition, bool), at, number)
    branches = [branch(function) for function in (default, *functions)]
    return vectorize(lambda at, value: transforms().switch(at, branches, value))(number, x)
