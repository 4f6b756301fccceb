"""What JAX says when it meets one of our tracers."""

import ast
import os
import sys
from types import FrameType
from typing import Any, NoReturn

import jax
import jaxlib
from jax._src import core as jax_core
from jax._src import dtypes

from minixla.core.errors import ConcretizationError, ForeignCallError, MinixlaError, explain
from minixla.core.source import Source, is_user_file, running_expression, skip_package
from minixla.core.tracing import Tracer, leaked
from minixla.engine.random_keys import TRACERS, RandomKey

_INSTALLED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(jax.__file__))), "")
_LONGEST = 100
#: Where the source does not show a call.
_UNKNOWN = "a JAX function", "mx.from_jax(f)(x) for f(x)"


def _refuse(value: Any) -> NoReturn:
    raise _refusal(value)


def _refusal(value: Any) -> MinixlaError:
    tracer = value.data if isinstance(value, RandomKey) else value
    if not tracer._trace.alive:
        return leaked(tracer, "a JAX function")
    frame, is_call = _calling_frame()
    source = None if frame is None else Source(frame.f_code, frame.f_lasti)
    function, instead = _as_ours(source) if is_call else _UNKNOWN
    problem = "its argument is a minixla tracer, which JAX cannot read"
    given = [f"the argument is {value!r}, made by {tracer._trace.transformation}"]
    advice = f"Write {instead}, which makes JAX's function one of ours. Or call the function of "
    advice += "the same name in mx.numpy or mx.nn (mx.numpy.sin, not jnp.sin; mx.numpy.take for a "
    advice += "JAX array indexed by it), or make the JAX function the outer one: ours can be "
    advice += "called inside jax.jit."
    return explain(ForeignCallError, function, problem, given, advice, source)


def _calling_frame() -> tuple[FrameType | None, bool]:
    """The frame that called the other library: the user's, else the innermost outside JAX.

    Also whether it did so itself, or gave a function to one of ours that did.
    """
    frame: FrameType | None = sys._getframe(3)
    found, is_call = None, True
    while frame is not None:
        file, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
        if is_user_file(file):
            found = found or frame
            if not _is_installed(file):
                return frame, is_call
        elif module.startswith("minixla") and module != __name__:
            if found is not None:
                return found, is_call  # what is farther out has called us
            is_call = False
        frame = frame.f_back
    return found, is_call


def _as_ours(source: Source | None) -> tuple[str, str]:
    """The function that is called there, and the same call by `from_jax`, as written."""
    expression = running_expression(source)
    call = None if expression is None else expression.node
    if not isinstance(call, ast.Call):
        return _UNKNOWN
    function = ast.unparse(call.func)
    if len(function) > _LONGEST or "\n" in function:
        return _UNKNOWN
    given = ", ".join(map(ast.unparse, [*call.args, *call.keywords]))
    return function, f"mx.from_jax({function})({given if len(given) <= _LONGEST else '...'})"


def _jax_array(value: Any) -> NoReturn:
    """Refuses where JAX asks whether a value is an array at all; elsewhere there is no such method.

    Operators ask too, and leave `jax_array + tracer` to us.
    """
    if sys._getframe(1).f_code.co_name == "_arraylike":
        _refuse(value)
    raise AttributeError("__jax_array__")


_own_array, _own_hash = Tracer.__array__, Tracer.__hash__


def _array(self: Tracer, dtype: Any = None, copy: bool | None = None) -> Any:
    """`__array__` that says what to do where it is JAX that asks for a NumPy array."""
    try:
        return _own_array(self, dtype, copy)
    except ConcretizationError:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("jax."):
            _refuse(self)
        raise


def _hash(self: Tracer) -> int:
    """`__hash__` that says what to do where a library takes a tracer for what is no array."""
    try:
        return _own_hash(self)
    except TypeError:
        if _is_installed(sys._getframe(1).f_code.co_filename):
            raise TypeError(str(_refusal(self))) from None
        raise


def _is_installed(file: str) -> bool:
    return os.path.abspath(file).startswith(_INSTALLED)


# Makes JAX raise our error for each tracer class, and its frames no user code.
for _library in (jax, jaxlib):
    skip_package(os.path.dirname(str(_library.__file__)))
for _kind in TRACERS:
    # The first is asked by jax.jit and jax.numpy, the second by each primitive.
    jax_core.pytype_aval_mappings[_kind] = _refuse
    dtypes.register_canonicalize_value_handler(_kind, _refuse)
# The core knows nothing of JAX, so that what JAX asks of tracers is put on from outside.
_protocol: Any = property(_jax_array)
Tracer.__jax_array__ = RandomKey.__jax_array__ = _protocol  # type: ignore[attr-defined]  # read by JAX
Tracer.__array__, Tracer.__hash__ = _array, _hash
