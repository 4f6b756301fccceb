"""`ufunc`: functions of elements, with methods reduce, accumulate, at, outer and reduceat."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, Generic, ParamSpec

from jax.numpy import vectorize

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.core.tracebacks import hide_frames
from minixla.numpy import operands
from minixla.numpy.element_functions import transforms
from minixla.numpy.operands import lifted, operand_shape
from minixla.typing import Array
from minixla_ops.elementwise.operators import convert

Parameters = ParamSpec("Parameters")
_OPTIONS = """
Args:
    out: must be None; results are returned.
    where: must be None; choose with `where`.
"""

# Methods of ufuncs that also exist as functions, by the ufunc's name.
FOLDS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
FOLDS |= {"logical_and": "all", "logical_or": "any"}
_RUNNING = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
_UPDATES = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}


class ufunc(Generic[Parameters]):
    """A function of elements that broadcasts, like NumPy's ufunc.

    Args:
        func: a function of `nin` scalars.
        nin: the number of arguments.
        nout: the number of results.
        name: its name; default: that of `func`.
        identity: the number that changes no other, if it exists.
        call: the function of arrays; default: `func` for each element.
    """

    def __init__(
        self,
        func: Callable[Parameters, Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
    ) -> None:
        self.__name__ = self.__qualname__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self.__module__ = "minixla.numpy"
        self.nin = operands.static_size(nin, self.__name__, "nin")
        self.nout = operands.static_size(nout, self.__name__, "nout")
        self.nargs, self.identity = self.nin + self.nout, identity
        self._call: Callable[..., Any] = call or vectorize(func)
        self.__signature__: Signature | None = None

    def __repr__(self) -> str:
        return f"<minixla.numpy.ufunc {self.__name__!r}>"

    def __reduce__(self) -> Any:
        return self.__name__

    def __call__(self, *args: Parameters.args, **options: Parameters.kwargs) -> Array:
        """Apply the function to arrays, which broadcast; `out` and `where` must be None."""
        try:
            if not options:
                return self._call(*args)
            stated = {name: value for name, value in options.items() if value is not None}
            if not stated.keys().isdisjoint(("out", "where")):
                advice = "Use the function's result, and choose with mx.numpy.where."
                self._refuse("out and where are not supported", advice)
            return self._call(*args, **stated)
        except Exception as error:
            hide_frames(error)
            raise

    def _refuse(self, problem: str, advice: str) -> None:
        raise operands.shape_error(self.__name__, problem, advice)

    def _check(self, method: str, out: None = None) -> None:
        operands.refuse_out(f"{self.__name__}.{method}", out)
        if self.nin != 2 or self.nout != 1:
            problem = (
                f"it has {self.nin} arguments and {self.nout} results, so {method} is not supported"
            )
            self._refuse(problem, "It requires two arguments and one result.")

    def _operand(self, a: Any, dtype: Any) -> Any:
        if self.__name__.startswith("logical_"):
            return operands.as_bool(a, self.__name__)
        return lifted(a if dtype is None else mnp.astype(a, dtype))

    def reduce(
        self,
        a: Any,
        axis: operands.Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """Fold elements along an axis (None: all), from the first to the last.

        Args:
            a: an array.
            axis: the axis or axes; custom ufuncs take one, or None.
            dtype: the type to compute in and return.
            out: not supported.
            keepdims: whether the axis stays, with size 1.
            initial: the number to begin with.
            where: booleans, true for elements that count. Without `initial` there must be an
                identity.
        """
        self._check("reduce", out)
        fold = FOLDS.get(self.__name__)
        options: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "where": where}
        if fold is not None:
            if fold not in ("all", "any"):
                options["initial"] = initial
            a = a if dtype is None else mnp.astype(a, dtype)
            return getattr(mnp, fold)(a, **options)
        x, kept = self._operand(a, dtype), operand_shape(a).dimensions
        axes = operands.axes_of(axis, len(kept), self.__name__)
        front = mnp.moveaxis(x, axes, range(len(axes)))
        first = mnp.reshape(front, (-1, *front.shape[len(axes) :]))
        mask = None
        if where is not None:
            mask = mnp.moveaxis(mnp.broadcast_to(where, kept), axes, range(len(axes)))
            mask = mnp.reshape(mask, first.shape)
        initial = self.identity if initial is None else initial
        if initial is None and (mask is not None or not first.shape[0]):
            self._refuse("it has no identity", "Pass initial.")
        start = first[0] if initial is None else convert(initial, operands.kind_of(x))
        start = mnp.broadcast_to(start, first.shape[1:])
        rest = first[1:] if initial is None else first

        def step(state: Any, member: Any) -> Any:
            value, counts = member
            following = convert(self._call(state, value), operands.kind_of(state))
            return (following if counts is None else mnp.where(counts, following, state)), None

        result, _ = transforms().scan(step, lifted(start), (rest, mask))
        return mnp.expand_dims(result, axes) if keepdims else result

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """Return the results of `reduce` for the elements along an axis up to each one."""
        self._check("accumulate", out)
        x = self._operand(a, dtype)
        running = _RUNNING.get(self.__name__)
        if running is not None:
            return getattr(mnp, running)(x, axis)
        moved = mnp.moveaxis(x, axis, 0)
        if not moved.shape[0]:
            return x

        def step(state: Any, value: Any) -> Any:
            following = convert(self._call(state, value), operands.kind_of(state))
            return following, following

        _, others = transforms().scan(step, moved[0], moved[1:])
        return mnp.moveaxis(mnp.concatenate([moved[:1], others]), 0, axis)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """Copy `a`, and replace elements at indices by the function of them (and of `b`).

        Repeated indices are applied one after the other; `inplace` must be False.
        """
        operands.refuse_in_place(f"{self.__name__}.at", inplace)
        if self.nin == 1:
            return lifted(a).at[indices].apply(self._call)
        self._check("at")
        x = lifted(a)
        if self.__name__ in _UPDATES:
            return getattr(x.at[indices], _UPDATES[self.__name__])(b)
        places = mnp.reshape(mnp.arange(x.size), x.shape)[indices]
        values = mnp.ravel(mnp.broadcast_to(convert(b, operands.kind_of(x)), places.shape))

        def step(state: Any, member: Any) -> Any:
            place, value = member
            following = convert(self._call(state[place], value), operands.kind_of(state))
            return state.at[place].set(following), None

        result, _ = transforms().scan(step, mnp.ravel(x), (mnp.ravel(places), values))
        return mnp.reshape(result, x.shape)

    def outer(self, A: Any, B: Any, /) -> Any:
        """Apply the function to each pair of elements of `A` and `B`."""
        self._check("outer")
        first = operand_shape(A, self.__name__).dimensions
        ones = [1] * operand_shape(B, self.__name__).rank
        return self._call(mnp.reshape(lifted(A), (*first, *ones)), B)

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """Return the results of `reduce` for elements from each index up to the next (or the end).

        If the next index is not greater, the result is the element at the index.
        """
        self._check("reduceat", out)
        x = mnp.moveaxis(self._operand(a, dtype), axis, 0)
        starts = lifted(mnp.asarray(indices))
        ends = mnp.append(starts[1:], x.shape[0])
        column = (-1, *[1] * (x.ndim - 1))

        def step(state: Any, member: Any) -> Any:
            place, value = member
            following = convert(self._call(state, value), operands.kind_of(state))
            is_inside = mnp.reshape((place > starts) & (place < ends), column)
            return mnp.where(is_inside, following, state), None

        members = mnp.arange(x.shape[0]), x
        result, _ = transforms().scan(step, x[starts], members)
        return mnp.moveaxis(result, 0, axis)


def with_methods(
    identity: Any = None,
) -> Callable[[Callable[Parameters, Array]], ufunc[Parameters]]:
    """Turn a function of arrays, with one or two arguments, into a ufunc."""

    def made(function: Callable[Parameters, Array]) -> ufunc[Parameters]:
        declared = signature(function)
        operands = list(declared.parameters.values())
        result = ufunc(function, len(operands), 1, identity=identity, call=function)
        options = [
            Parameter(label, Parameter.KEYWORD_ONLY, default=None) for label in ("out", "where")
        ]
        result.__signature__ = declared.replace(parameters=[*operands, *options])
        return documented(_OPTIONS)(result)

    return made
