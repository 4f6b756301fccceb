"""What the tests of mx.numpy share: a function of ours against jax.numpy's of the same name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from tests.harness import QUICKLY, compiled_rows, together

# In units of the type's eps: JAX computes f16 and bf16 partly in f32, we round each operation.
TOLERANCES = {"float16": 8, "bfloat16": 8, "float32": 16, "complex64": 32, "float64": 32}


def values(dtype: Any, *shape: int, seed: int = 0, low: float = -3, high: float = 3) -> np.ndarray:
    """Random values: floats in [low, high), small integers, booleans."""
    generator = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return generator.integers(0 if kind.kind == "u" else -4, 5, shape).astype(kind)
    drawn = generator.uniform(low, high, shape)
    if kind.kind == "c":
        drawn = drawn + 1j * generator.uniform(low, high, shape)
    return drawn.astype(kind)


def named(name: str, module: Any) -> Callable[..., Any]:
    """A function by its dotted name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def assert_close(actual: Any, expected: Any, units: float | None = None) -> None:
    """Asserts equal structure, dtypes and shapes, and values within `units` of eps."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, units)
        return
    if isinstance(expected, (bool, int, str)):
        assert actual == expected
        return
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    units = TOLERANCES[actual.dtype.name] if units is None else units
    tolerance = units * float(ml_dtypes.finfo(actual.dtype).eps)
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance
    )


def split(args: Sequence[Any]) -> tuple[list[np.ndarray], Callable[..., list[Any]]]:
    """The arrays in a nest of arguments, and how to put others in their places."""
    leaves, tree = jax.tree.flatten(list(args), is_leaf=lambda x: x is None or isinstance(x, slice))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def rebuild(arrays: Sequence[Any]) -> list[Any]:
        filled = list(leaves)
        for at, array in zip(places, arrays, strict=True):
            filled[at] = array
        return jax.tree.unflatten(tree, filled)

    return [leaves[at] for at in places], rebuild


def run(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What our function gives, with the arrays among its arguments traced."""
    arrays, rebuild = split(args)
    function = named(name, mnp)
    return mx.reference(lambda *xs: function(*rebuild(xs), **kwargs))(*arrays)


def check_batched(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Asserts that vmap over the first array of floats gives what single calls give."""
    arrays, rebuild = split(args)
    place = next((at for at, x in enumerate(arrays) if x.dtype.kind in "fcV"), None)
    if place is None:
        return
    function = named(name, mnp)
    members = [arrays[place], (arrays[place] * 0.9).astype(arrays[place].dtype)]

    def call(x: Any) -> Any:
        return function(*rebuild([*arrays[:place], x, *arrays[place + 1 :]]), **kwargs)

    batched = mx.reference(mx.vmap(call, in_axes=-1))(np.stack(members, -1))
    for at, member in enumerate(members):
        one = jax.tree.map(lambda leaf, at=at: leaf[at], batched)
        assert_close(one, mx.reference(call)(member), 64)


class Row(NamedTuple):
    """One call that is made of our function and of JAX's of the same name.

    Attributes:
        name: dotted.
        args: nests, whose NumPy arrays are traced; all else is known.
        options: keywords.
        units: how far results may be apart, in eps.
        jit: whether ours is also compiled.
        batch: whether ours is also batched.
        gradient: whether the derivative of a sum of squares is meant.
        theirs: further keywords of JAX's alone, such as the size of a result, which depends on
            values: `jax.jit` must be told.
    """

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    units: float | None = None
    jit: bool = False
    batch: bool = False
    gradient: bool = False
    theirs: Mapping[str, Any] = MappingProxyType({})

    def arrays(self) -> list[np.ndarray]:
        return split(self.args)[0]

    def function(self, namespace: Any, grad: Callable[..., Any]) -> Callable[..., Any]:
        """What the row asks for, of its arrays."""
        arrays, rebuild = split(self.args)
        options = {**self.options, **(self.theirs if namespace is jnp else {})}

        def value(*xs: Any) -> Any:
            return named(self.name, namespace)(*rebuild(xs), **options)

        def loss(*xs: Any) -> Any:
            return sum((leaf * leaf).sum() for leaf in jax.tree.leaves(value(*xs)))

        floats = tuple(at for at, x in enumerate(arrays) if x.dtype.kind in "fc")
        return grad(loss, argnums=floats) if self.gradient else value


def call(
    name: str,
    *args: Any,
    units: float | None = None,
    jit: bool = False,
    batch: bool = True,
    theirs: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Row:
    """A row for values: in NumPy evaluation, with `jit` compiled, with `batch` batched."""
    return Row(name, args, options, units, jit, batch, theirs=theirs)


def gradient(name: str, *args: Any, units: float = 64, **options: Any) -> Row:
    """A row for derivatives of a sum of squares of the result."""
    return Row(name, args, options, units, gradient=True)


class Table:
    """Rows under keys; JAX computes all of them in one program, as ours does where it compiles.

    A program of its own for each row, or in JAX for each operation, would take most of the time.
    """

    def __init__(self, rows: Mapping[Any, Row | Sequence[Row]]) -> None:
        self.rows: dict[Any, list[Row]] = {
            key: [found] if isinstance(found, Row) else list(found) for key, found in rows.items()
        }

    @functools.cached_property
    def expected(self) -> dict[int, Any]:
        """JAX's results by the rows' identities."""
        rows = {id(row): row for found in self.rows.values() for row in found}
        return together(
            functools.partial(jax.jit, compiler_options=QUICKLY),
            {key: row.function(jnp, jax.grad) for key, row in rows.items()},
            {key: row.arrays() for key, row in rows.items()},
            known=True,
        )

    @functools.cached_property
    def compiled(self) -> Callable[[int], Any]:
        """From the identities of rows that ask for it to our results, compiled."""
        rows = [row for found in self.rows.values() for row in found if row.jit]
        return compiled_rows({id(x): (x.function(mnp, mx.grad), x.arrays()) for x in rows})

    def check(self, key: Any) -> None:
        """Asserts that our function and JAX's agree in the rows of a key."""
        for row in self.rows[key]:
            if row.batch:
                check_batched(row.name, row.args, row.options)
            arrays, function = row.arrays(), row.function(mnp, mx.grad)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of narrowed dtypes
                if id(row) in self.expected:
                    expected = self.expected[id(row)]
                else:
                    expected = row.function(jnp, jax.grad)(*map(jnp.asarray, arrays))
                assert_close(mx.reference(function)(*arrays), expected, row.units)
                if row.jit:
                    assert_close(self.compiled(id(row)), expected, row.units)


def numbered(
    row: Callable[..., Row], calls: Sequence[tuple[str, tuple, dict]], **options: Any
) -> Table:
    """A table of `call` or `gradient`, each under its name and its place."""
    return Table(
        {
            f"{name}-{at}": row(name, *args, **options, **keywords)
            for at, (name, args, keywords) in enumerate(calls)
        }
    )


def check(*rows: Row) -> None:
    """Asserts that our functions and JAX's agree in these rows."""
    Table({None: rows}).check(None)
