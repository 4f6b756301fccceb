"""Helpers for functions of a key: keys from users, programs, types and sizes."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from inspect import signature
from operator import itemgetter
from typing import Any, TypeVar

import jax
import ml_dtypes

import minixla.numpy as mnp
from minixla.core import Graph, Shape
from minixla.core.attributes import spelling
from minixla.core.element_types import U32, ElementType
from minixla.core.shapes import shape_of_data
from minixla.core.tracebacks import hide_frames
from minixla.core.tracing import Tracer, closed_graph, weak_type_of
from minixla.core.whole_programs import one_program, plain_flags
from minixla.engine.random_keys import KeyNumbers, is_key
from minixla.numpy import operands
from minixla.numpy.operands import kind_of, requested_type, shape_error, static_sizes, value_error
from minixla.random.implementations import IMPLEMENTATIONS, Implementation
from minixla_ops.elementwise.operators import broadcast_shapes, operand_shape
from minixla_ops.elementwise.promotion import promote_types
from minixla_ops.programs.call import call
from minixla_ops.programs.lowering import without_lines

Function = Callable[..., Any]
_Sampler = TypeVar("_Sampler", bound=Function)
#: Sections that distributions share.
SHARED = """
Args:
    key: a random key from `key`, `split` or `fold_in`, a raw key (`PRNGKey`), or a JAX key.
    shape: the shape of the result.
    dtype: the element type of the result; default: the default float type.
    out_sharding: a sharding for the result, as for `minixla.sharding.constrain`.

Returns:
    An array of floats of that shape.

Raises:
    ShapeError: `key` is not a random key, the dtype is not suitable, or the shapes do not
        broadcast.
"""
#: Sections that distributions with array parameters share, besides `SHARED`.
BROADCAST = """
Args:
    shape: the shape of the result; None: that of the parameters, which must broadcast to it.
"""
_NUMBERS = {bool, int, float}
_MAKE_KEYS = "Pass a key of mx.random.key(seed), split or fold_in."


def setting(name: str) -> Any:
    """Return the value of an option of JAX; `name` lacks the prefix `jax_`."""
    return getattr(jax.config, f"jax_{name}")


@lru_cache(maxsize=8)
def key_type(implementation: str) -> Any:
    """Return JAX's dtype for the keys of an implementation."""
    return jax.random.key_dtype(implementation)


@lru_cache(maxsize=64)
def _implementation(dtype: Any) -> Implementation | None:
    return next((IMPLEMENTATIONS[n] for n in IMPLEMENTATIONS if key_type(n) == dtype), None)


def implementation_of(key: KeyNumbers) -> Implementation:
    """Return the implementation of a key."""
    implementation = _implementation(key.dtype)
    if implementation is None:
        advice = f"Use one of {', '.join(IMPLEMENTATIONS)}."
        raise value_error("random", f"keys of type {key.dtype} are not supported", advice)
    return implementation


def is_threefry(key: KeyNumbers) -> bool:
    """Test for threefry keys, for which a draw from several keys equals a draw from each."""
    return key.dtype == key_type("threefry2x32")


def default_type() -> Any:
    """Return the default dtype of keys, which is that of `jax_default_prng_impl`."""
    return key_type(setting("default_prng_impl"))


def typed(key: Any, subject: str) -> KeyNumbers:
    """Convert a key from a user, or an array of keys, to `KeyNumbers`.

    Raises:
        ShapeError: it is neither a typed key nor the numbers of one.
    """
    if is_key(key):
        return KeyNumbers.of(key)
    dtype = default_type()
    return KeyNumbers(checked_data(key, dtype, subject), dtype)


def checked_data(data: Any, dtype: Any, subject: str) -> Any:
    """Check and return the numbers of raw keys of a type."""
    shape = data._array_shape() if isinstance(data, Tracer) else shape_of_data(data)
    words = implementation_of(KeyNumbers(data, dtype)).words
    if not isinstance(shape, Shape) or isinstance(data, (bool, int, float, complex)):
        problem, details = "the key is not a random key", f"key = {data!r}"
        raise shape_error(subject, problem, _MAKE_KEYS, details)
    if shape.element_type is not U32 or shape.dimensions[-1:] != (words,):
        problem = f"these are not the numbers of a key of type {dtype}"
        advice = f"It has {words} numbers of type u32, along the last dimension. {_MAKE_KEYS}"
        raise shape_error(subject, problem, advice, f"key {shape}")
    return data


def single(key: KeyNumbers, subject: str) -> KeyNumbers:
    """Return the key; raise an error if it is an array of keys."""
    if len(key.data.shape) != 1:
        problem, details = "the key is an array of keys", f"it has shape {key.shape}"
        advice = f"Pass one of them, or map over them: mx.vmap(mx.random.{subject})(keys)."
        raise shape_error(subject, problem, advice, details)
    return key


def split_keys(
    key: Any, count: int, sizes: Sequence[int] = (), is_loop: bool = False
) -> list[KeyNumbers]:
    """Create new keys from a single one, for use within a function that draws.

    The keys are separate. `sizes` is the shape of a draw from each key, if it is drawn at once.
    `is_loop` is the attribute of Threefry2x32.
    """
    members = implementation_of(key).members(key.data, count, math.prod(sizes) > 1, is_loop)
    return [KeyNumbers(jax.tree.map(itemgetter(at), members), key.dtype) for at in range(count)]


def random_bits(key: Any, width: int, sizes: Sequence[int]) -> Any:
    """Draw unsigned integers of a width from a single key."""
    return implementation_of(key).bits(key.data, width, tuple(sizes))


def as_call(*arrays: str, known: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Turn a function of a key, and of the arrays named here, into one Call in a program.

    Arrays in `known` may be single integers; the program is specialized for these.
    """

    def made(function: Function) -> Function:
        positions = tuple(signature(function).parameters)

        @wraps(function)
        def called(key: KeyNumbers, *args: Any, **options: Any) -> Any:
            options.update(zip(positions[1:], args, strict=False))
            names = tuple([name for name in arrays if options.get(name) is not None])
            for name in known:
                value = options[name]
                if not getattr(value, "ndim", 0) and not isinstance(value, (list, tuple)):
                    if not kind_of(value, function.__name__).is_integer:
                        problem, advice = f"{name} is not an integer", "Pass an integer or array."
                        raise shape_error(function.__name__, problem, advice, **{name: value})
                    options[name] = operands.static_int(value, function.__name__, name)
                    names = tuple([other for other in names if other != name])
            # Keep Python numbers, so that they become constants of the program.
            names = tuple([name for name in names if type(options[name]) not in _NUMBERS])
            values = [mnp.asarray(options.pop(name)) for name in names]
            weak = tuple(map(weak_type_of, values))
            shapes = (operand_shape(key.data), *map(operand_shape, values))
            items = tuple(options.items())
            mode = operands.default_float(), setting("high_dynamic_range_gumbel")
            program = _program(
                function, key.dtype, names, shapes, weak, items, spelling(items), mode
            )
            results = call(program, key.data, *values)
            return results[0] if len(results) == 1 else results

        return called

    return made


@lru_cache(maxsize=2048)
def _program(
    function: Function,
    dtype: Any,
    names: tuple[str, ...],
    shapes: tuple[Shape, ...],
    weak: tuple[bool, ...],
    options: tuple[Any, ...],
    *_: Any,
) -> Graph:
    """Convert a function of a key and arrays to a graph of the key's numbers and the arrays."""

    def staged(data: Any, *values: Any) -> Any:
        marked = [operands.marked(x, is_weak) for x, is_weak in zip(values, weak, strict=True)]
        return function(
            KeyNumbers(data, dtype), **dict(zip(names, marked, strict=True)), **dict(options)
        )

    return without_lines(
        closed_graph(staged, shapes, function.__name__, function.__name__).pruned()
    )


def sampler(*arrays: str, known: Sequence[str] = ()) -> Callable[[_Sampler], _Sampler]:
    """Make a public function, which accepts any key and runs as one program.

    The decorated function receives its key as `KeyNumbers`, and does not receive `out_sharding`.

    Args:
        arrays: the names of the parameters that are arrays.
        known: as for `as_call`.
    """

    def made(function: _Sampler) -> _Sampler:
        subject, run = function.__name__, as_call(*arrays, known=known)(function)
        declared = signature(function)
        names = tuple(declared.parameters)
        needed = {
            n
            for n, parameter in declared.parameters.items()
            if parameter.default is parameter.empty
        }
        known_names = {*names}
        defaults = {n: parameter.default for n, parameter in declared.parameters.items()}
        flags = frozenset(n for n, default in defaults.items() if isinstance(default, bool))
        needs_shape = isinstance(defaults.get("shape"), tuple)

        def drawn(*args: Any, **options: Any) -> Any:
            try:
                bound = {**options, **dict(zip(names, args, strict=False))}
                is_whole = len(bound) == len(args) + len(options)
                if not is_whole or not needed <= bound.keys() <= known_names:
                    declared.bind(*args, **options)  # raises an error
                out_sharding = bound.pop("out_sharding", None)
                bound |= plain_flags(subject, flags, bound)
                if bound.get("shape") is not None or (needs_shape and "shape" in bound):
                    bound["shape"] = static_sizes(bound["shape"], subject)
                result = run(single(typed(bound.pop("key"), subject), subject), **bound)
                if out_sharding is None:
                    return result
                import minixla.sharding  # late, because it loads propagation

                return minixla.sharding.constrain(result, out_sharding)
            except Exception as error:
                hide_frames(error)
                raise

        public: Any = wraps(function)(drawn)
        public = one_program("key", *arrays, known=known)(public)
        public.__module__ = "minixla.random"
        return public

    return made


def sizes_of(subject: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """Return the sizes of the result: `shape`, to which parameters must broadcast, or theirs."""
    sizes = [operand_shape(parameter, subject).dimensions for parameter in parameters]
    if shape is None:
        return broadcast_shapes(sizes, subject)
    if sizes and broadcast_shapes([shape, *sizes], subject) != tuple(shape):
        details = [f"parameters of shapes {', '.join(map(str, sizes))}"]
        advice = "The parameters must broadcast to shape; give a shape that ends with their sizes."
        raise shape_error(subject, "shape is too small", advice, *details, shape=tuple(shape))
    return tuple(shape)


def requested(dtype: Any, subject: str, default: ElementType, *allowed: str) -> ElementType:
    """Return the element type for a dtype; its kind must be `allowed`.

    Raises:
        ShapeError: its kind is not allowed.
    """
    kind = requested_type(dtype, subject, default)
    if kind.kind not in allowed:
        problem, kinds = f"it does not draw numbers of type {kind}", " or ".join(allowed)
        raise shape_error(subject, problem, f"Pass a dtype of kind {kinds}.", dtype=dtype)
    return kind


def refuse_narrowing(subject: str, kind: ElementType, *parameters: Any) -> None:
    """Raise an error if a parameter has a type that does not fit the result's type."""
    for parameter in parameters:
        kind_of_parameter = kind_of(parameter, subject)
        if (
            not weak_type_of(parameter)
            and type(parameter) not in _NUMBERS
            and promote_types(kind_of_parameter, kind) is not kind
        ):
            problem, details = (
                f"a parameter does not fit into {kind}",
                f"it is {operand_shape(parameter)}",
            )
            raise shape_error(subject, problem, "Convert it, or give its type as dtype.", details)


def finfo(kind: ElementType) -> Any:
    """Return the `finfo` of a float type."""
    return ml_dtypes.finfo(kind.dtype)
