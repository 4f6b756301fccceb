"""Type promotion, for every pair of element types, strong and weak, against JAX."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.dtypes import TypePromotionError

from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import ShapeError
from minixla_ops.elementwise.promotion import inexact_type, numeric_type, promote_types, result_type

WIDE = ("s64", "u64", "f64", "c128")
# The types that values made from Python scalars have, and so those that weak values have.
WEAK = ("pred", "s32", "f32", "c64", "s64", "f64", "c128")


def kinds(x64):
    return [kind for name, kind in ELEMENT_TYPES.items() if x64 or name not in WIDE]


def operands(x64):
    strong = [(kind, False) for kind in kinds(x64)]
    return strong + [(kind, True) for kind in kinds(x64) if kind.name in WEAK]


def of_jax(given):
    """JAX's element type and weakness of a sum, or None where it refuses."""
    shapes = [jax.ShapeDtypeStruct((), kind.dtype, weak_type=weak) for kind, weak in given]
    try:
        result = jax.eval_shape(jnp.add, *shapes)
    except TypePromotionError:
        return None
    return np.dtype(result.dtype), bool(result.weak_type)


def of_ours(given):
    try:
        kind, weak = result_type(given)
    except ShapeError:
        return None
    # A weak pred is as strong as any: there is nothing below it.
    return kind.dtype, weak and kind.kind != "pred"


@pytest.mark.parametrize(
    ("first", "weak", "x64"),
    [(kind.name, weak, x64) for x64 in (False, True) for kind, weak in operands(x64)],
)
def test_every_pair(first, weak, x64):
    # Those before it have met it already.
    choices = operands(x64)
    own = (ELEMENT_TYPES[first], weak)
    with jax.enable_x64(x64):
        for second in choices[choices.index(own) :]:
            given = [own, second]
            assert of_ours(given) == of_jax(given), given
            assert of_ours(given[::-1]) == of_ours(given), given


@pytest.mark.parametrize("x64", [False, True])
def test_several_operands(x64):
    generator = np.random.default_rng(0)
    choices = operands(x64)
    with jax.enable_x64(x64):
        for _ in range(300):
            given = [choices[i] for i in generator.integers(len(choices), size=4)]
            shapes = [jax.ShapeDtypeStruct((), k.dtype, weak_type=w) for k, w in given]
            try:
                expected = []
                jax.eval_shape(lambda *xs: expected.append(jnp.result_type(*xs)), *shapes)  # noqa: B023
            except TypePromotionError:
                expected = [None]
            ours = of_ours(given)
            assert (ours and ours[0]) == expected[0], given


@pytest.mark.parametrize("x64", [False, True])
def test_promote_types(x64):
    with jax.enable_x64(x64):
        for first, second in itertools.combinations_with_replacement(kinds(x64), 2):
            try:
                expected = jnp.promote_types(first.dtype, second.dtype)
            except TypePromotionError:
                with pytest.raises(ShapeError, match="no common type"):
                    promote_types(first, second)
            else:
                assert promote_types(first, second).dtype == expected


@pytest.mark.parametrize("x64", [False, True])
def test_types_of_quotients(x64):
    # Of 2-bit integers JAX makes no quotients: its table of inexact types lacks them.
    with jax.enable_x64(x64):
        for kind in kinds(x64):
            if kind.name not in ("s2", "u2"):
                shape = jax.ShapeDtypeStruct((), kind.dtype)
                assert (
                    inexact_type(kind).dtype == jax.eval_shape(jnp.true_divide, shape, shape).dtype
                )
        assert inexact_type(ELEMENT_TYPES["s2"]) is ELEMENT_TYPES["f32"]


def test_pred_is_computed_with_as_an_integer():
    assert numeric_type(ELEMENT_TYPES["pred"]) is ELEMENT_TYPES["s32"]
    for name in ("u4", "s8", "bf16", "c64"):
        assert numeric_type(ELEMENT_TYPES[name]) is ELEMENT_TYPES[name]


def test_message_names_the_types_and_says_what_to_do():
    with pytest.raises(ShapeError, match=r"bf16, f8e4m3fn(.|\n)*astype"):
        promote_types(ELEMENT_TYPES["bf16"], ELEMENT_TYPES["f8e4m3fn"])
