"""Shapes and element types of results, of integers and booleans above all: JAX's, in both modes.

Nothing is computed: both sides are asked for the shape of the result alone.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla.numpy as mnp
from minixla_ops.helpers.shorthand import array_shape
from tests.harness import graph_of
from tests.minixla.numpy.tables import named

KINDS = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32"]
WIDE = ["uint64", "int64"]
FLOATS = ["float16", "float32"]
#: Sizes of operands to try.
FORMS = [
    [(4,)],
    [(3, 3)],
    [(2, 3, 3)],
    [(4,), (4,)],
    [(3,), (3,)],
    [(3, 3), (3, 3)],
    [(4,), (4,), (4,)],
]
NO_FUNCTIONS_OF_ARRAYS = """broadcast_shapes can_cast dtype finfo iinfo isdtype isscalar issubdtype
promote_types result_type generic apply_along_axis apply_over_axes array_repr array_str bartlett
blackman from_dlpack frombuffer fromfile fromiter frompyfunc fromstring get_printoptions hamming
hanning iterable kaiser load piecewise place printoptions put save savez set_printoptions ufunc
vectorize fft.fftfreq fft.rfftfreq"""
#: Functions whose other parameters must be known: see `CALLS`.
KNOWN = """arange array_split dsplit fromfunction hsplit insert split unravel_index vsplit"""
DIFFERENT = {
    "corrcoef": "a third operand says whether rows are variables",
    "cov": "a third operand says whether rows are variables",
    "gradient": "distances are numbers",
    "linalg.vector_norm": "JAX computes in integers, which overflow, and rounds the root",
    "take": "truth values are no indices",
}


def names():
    found = [n for n in mnp.__all__ if not isinstance(getattr(mnp, n), (type, mnp.ScalarType))]
    for module in ("fft", "linalg"):
        found += [f"{module}.{name}" for name in getattr(mnp, module).__all__]
    left_out = {*NO_FUNCTIONS_OF_ARRAYS.split(), *KNOWN.split(), *DIFFERENT}
    return sorted({n for n in found if callable(function_of(n, mnp))} - left_out)


def function_of(name, module):
    try:
        return named(name, module)
    except AttributeError:
        return None


def axis(name, **options):
    return lambda np, x: named(name, np)(x, axis=-1, **options)


def with_number(name, number):
    return lambda np, x: named(name, np)(x, number)


OVER_AXES = """sum prod cumsum cumprod mean var std nansum nanprod nanmean nanvar nanstd all
nancumsum nancumprod average ptp max min any argmax argmin cumulative_sum cumulative_prod nanmax
nanmin count_nonzero diff gradient unwrap trapezoid"""
TO_TYPES = "sum prod cumsum cumprod mean nansum cumulative_sum cumulative_prod"
WITH_NUMBERS = """power float_power multiply add divide floor_divide remainder subtract maximum
fmax arctan2 logaddexp copysign fmod divmod polyval"""
CALLS = {f"{name} over an axis": (axis(name), [(3, 3)]) for name in OVER_AXES.split()}
CALLS |= {
    f"{name} to {kind}": (axis(name, dtype=np.dtype(kind)), [(4,)])
    for name in TO_TYPES.split()
    for kind in ("int8", "float32", "complex64")
}
CALLS |= {
    f"{name} and {number}": (with_number(name, number), [(4,)])
    for name in WITH_NUMBERS.split()
    for number in (2, 2.5, True)
}
CALLS |= {
    f"norm {order}": (lambda np, x, order=order: np.linalg.norm(x, order), [(4,)])
    for order in (1, 2, 3, 0, 0.5, np.inf, -1)
}
X = [(4,)]
CALLS |= {
    "angle in degrees": (lambda np, x: np.angle(x, deg=True), X),
    "bincount": (lambda np, x: np.bincount(x + 0, length=5), X),
    "clip": (lambda np, x: np.clip(x, 0, 1), X),
    "clip to floats": (lambda np, x: np.clip(x, 0.5, 1.5), X),
    "diff behind a number": (lambda np, x: np.diff(x, prepend=1), X),
    "ediff1d between ends": (lambda np, x: np.ediff1d(x, to_begin=1.5, to_end=2), X),
    "full_like": (lambda np, x: np.full_like(x, 2.5), X),
    "gradient of distant ones": (lambda np, x: np.gradient(x, 2.5), X),
    "histogram with weights": (lambda np, x, y: np.bincount(y + 0, x, length=5), [*X, *X]),
    "insert": (lambda np, x: np.insert(x, 1, 2.5), X),
    "interp": (lambda np, x, y: np.interp(x, y, y), [*X, *X]),
    "interp at a float": (lambda np, x: np.interp(np.float32(2), x, x), X),
    "linspace": (lambda np, x: np.linspace(x, 5, 4), [()]),
    "logspace": (lambda np, x: np.logspace(x, 5, 4), [()]),
    "matrix_power": (lambda np, x: np.linalg.matrix_power(x, 3), [(3, 3)]),
    "mean of all": (lambda np, x: x.mean(), X),
    "pad with a float": (lambda np, x: np.pad(x, 2, constant_values=1.5), X),
    "pad with means": (lambda np, x: np.pad(x, 2, mode="mean"), X),
    "rounded": (lambda np, x: x.round(), X),
    "trace as f32": (lambda np, x: np.linalg.trace(x, offset=1, dtype="float32"), [(2, 3, 3)]),
    "trapezoid at places": (lambda np, x, y: np.trapezoid(x, y), [*X, *X]),
    "unwrap by a whole period": (lambda np, x: np.unwrap(x, period=4), X),
    "unwrap by a float": (lambda np, x: np.unwrap(x, period=4.5), X),
    "vander, increasing": (lambda np, x: np.vander(x, 3, increasing=True), X),
    "where": (lambda np, x: np.where(x > 1, x, 2), X),
    "where, float": (lambda np, x: np.where(x > 1, x, 2.5), X),
}


def types(shapes):
    return [(str(each.dtype), tuple(each.shape)) for each in jax.tree.leaves(shapes)]


def expected(function, operands):
    """JAX's answer; None where it refuses."""
    try:
        return types(jax.eval_shape(function, *operands))
    except Exception:
        return None


def check(ours, theirs, sizes, kinds, others):
    """Asserts that both say the same of operands of these sizes; counts what JAX takes."""
    count = 0
    for kind, other in itertools.product(kinds, others if len(sizes) > 1 else [None]):
        kinds_of_operands = [kind, *[other or kind] * (len(sizes) - 1)]
        operands = [np.ones(size, k) for size, k in zip(sizes, kinds_of_operands, strict=True)]
        wanted = expected(theirs, operands)
        if wanted is not None:
            count += 1
            graph = graph_of(ours, operands)
            shapes = map(array_shape, graph.output_shapes)
            found = [(str(shape.dtype), shape.dimensions) for shape in shapes]
            assert found == wanted, (kinds_of_operands, sizes)
    return count


def check_function(name, forms, kinds, others):
    ours, theirs = named(name, mnp), function_of(name, jnp)
    return sum(check(ours, theirs, sizes, kinds, others) for sizes in forms)


def call_of(name):
    function, sizes = CALLS[name]
    return lambda *xs: function(mnp, *xs), lambda *xs: function(jnp, *xs), sizes


# Ours refuse matrices, of which only JAX makes something; poly of one needs its eigenvalues.
OF_VECTORS = ("poly", "polyadd", "polyder", "polysub")
COMMON = [name for name in names() if function_of(name, jnp) is not None]


@pytest.mark.parametrize("name", COMMON)
def test_result_types_in_64_bit_mode(name):
    with jax.enable_x64(True):
        # Those of no form have their other parameters in a call, or are tested by their values.
        for sizes in FORMS:
            if check_function(name, [sizes], ["uint8", "bool"], ["int32"]):
                break


@pytest.mark.parametrize("name", CALLS)
def test_result_types_of_calls(name):
    with jax.enable_x64(True):
        assert check(*call_of(name), ["uint8", "bool"], ["int32"])


@pytest.mark.full
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("name", COMMON)
def test_result_types_of_all_integers(name, is_wide):
    with jax.enable_x64(is_wide):
        kinds = [*KINDS, *WIDE * is_wide]
        forms = [f for f in FORMS if name not in OF_VECTORS or all(len(each) < 2 for each in f)]
        check_function(name, forms, kinds, [None, "float16"])


@pytest.mark.full
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_result_types_of_calls_of_all_integers(name, is_wide):
    with jax.enable_x64(is_wide):
        assert check(*call_of(name), [*KINDS, *WIDE * is_wide, *FLOATS], [None, "float32"])
