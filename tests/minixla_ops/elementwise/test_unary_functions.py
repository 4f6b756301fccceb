"""Rounded element-wise functions: how far NumPy's reference, XLA and the interpreter are apart.

The reference computes in double and rounds once, so that the distances are the backends' errors.
"""

import inspect
import math

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla_ops.elementwise import numpy_special as special
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import check_batching, check_operation, check_rejected, graph_of
from tests.oracles import run_stablehlo, run_xla
from tests.oracles.compare import assert_same, flush_denormals, ulp_distance
from tests.oracles.values import all_values, bit_width, edge_values, random_values

# NumPy warns of NaNs and infinities, which are among the operands.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

NAMES = [
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "log",
    "log1p",
    "logistic",
    "rsqrt",
    "sin",
    "sqrt",
    "tan",
    "tanh",
]
FLOATS = [n for n, kind in ELEMENT_TYPES.items() if kind.is_float]
COMPLEX = ["c64", "c128"]
NARROW = [n for n in FLOATS if ELEMENT_TYPES[n].bits <= 16]


def real_operand(kind):
    """Every value of narrow types (every seventh of 16 bits); edges and random ones of others."""
    dtype = ELEMENT_TYPES[kind].dtype
    if bit_width(dtype) <= 16:
        return all_values(dtype)[:: 7 if bit_width(dtype) == 16 else 1]
    exponents = np.random.default_rng(4).uniform(-37, 37, 500)
    parts = [
        edge_values(dtype),
        random_values(dtype, (1000,), 1),
        random_values(dtype, (500,), 2, -100, 100),
        random_values(dtype, (500,), 3, -0.01, 0.01),
        10.0**exponents,
    ]
    return np.concatenate(parts).astype(dtype)


def complex_operand(kind):
    dtype = ELEMENT_TYPES[kind].dtype
    parts = [
        edge_values(dtype),
        random_values(dtype, (500,), 1),
        random_values(dtype, (500,), 2, -40, 40),
        random_values(dtype, (500,), 3, -0.001, 0.001),
    ]
    return np.concatenate(parts)


def functions(names):
    return lambda x: [getattr(ops, name)(x) for name in names]


def steps_apart(name, operand, actual):
    """Steps from what a backend gives to the reference, denormals counting as zeros or not.

    XLA:CPU takes denormal operands and results for zeros in some instructions and not in others.
    """
    operation = REGISTRY[name.capitalize()]()
    given = [operand, flush_denormals(operand)]
    expected = [operation.reference(x) for x in given]
    expected += [flush_denormals(x) for x in expected]
    options = [ulp_distance(actual, each, signed_zeros=True) for each in expected]
    return np.min(options, axis=0)


# Steps that XLA:CPU is off in f32 and f64, and in c64 and c128 in the plane. Where more than 4:
# log1p f64 loses digits around -0.41, where its two branches meet; tanh f64 and the complex
# functions made of it stop at a rational approximation of 1 - 7 ulp; logistic of complex numbers
# cancels in 1 + e**-z next to its poles, and log of those of modulus 1; complex cbrt, sin, cos and
# cosh are products of real functions with an error each.
XLA_STEPS = {
    # name: (f32, f64, c64, c128)
    "cbrt": (1, 3, 5, 6),
    "cos": (1, 1, 5, 6),
    "cosh": (3, 4, 5, 6),
    "erf": (4, 1, None, None),
    "exp": (4, 1, 3, 3),
    "expm1": (4, 3, 5, 4),
    "log": (1, 1, 3, 8),
    "log1p": (2, 128, 3, 5),
    "logistic": (2, 3, 40, 20),
    "rsqrt": (1, 2, 5, 5),
    "sin": (1, 1, 5, 6),
    "sqrt": (0, 0, 3, 3),
    "tan": (1, 1, 6, 6),
    "tanh": (4, 7, 5, 6),
}
# The interpreter computes in f64 with the C library; cosh, erf and logistic it has as programs,
# and those of complex numbers that StableHLO gets as programs here.
INTERPRETER_STEPS = {
    **dict.fromkeys(NAMES, (0, 1, 0, 1)),
    "cbrt": (0, 3, 4, 6),
    "cos": (0, 1, 4, 4),
    "cosh": (3, 4, 5, 6),
    "erf": (24, 2, None, None),
    "expm1": (0, 1, 1, 2**18),  # exp(z) - 1, which cancels
    "log1p": (0, 1, 1, 2**18),  # log(1 + z), likewise
    "logistic": (2, 3, 20, 20),
    "rsqrt": (0, 1, 0, 2),
    "sin": (0, 1, 4, 4),
    "tan": (0, 1, 0, 1),
    "tanh": (0, 2, 0, 1),
}
# Types whose largest value e**x exceeds before 1 / (1 + e**x) vanishes: the interpreter rounds in
# between, to NaN.
OVERFLOWING_LOGISTIC = ["f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz"]
# Types without infinity and NaN, for which the interpreter puts 0.
WITHOUT_INFINITY = ["f4e2m1fn", "f6e2m3fn", "f6e3m2fn"]


@pytest.fixture(scope="module")
def results():
    """What a backend gives for all functions of one type, computed once."""
    known = {}

    def find(kind, backend):
        if (kind, backend) not in known:
            is_complex = kind in COMPLEX
            operand = complex_operand(kind) if is_complex else real_operand(kind)
            names = [name for name in NAMES if not (is_complex and name == "erf")]
            text = graph_of(functions(names), [operand]).stablehlo()
            actual = (run_xla if backend == "XLA" else run_stablehlo)(text, [operand])
            known[kind, backend] = operand, dict(zip(names, actual, strict=True))
        return known[kind, backend]

    return find


def assert_close(name, operand, actual, bound, compared=None):
    distance = steps_apart(name, operand, actual)
    compared = np.ones(operand.shape, bool) if compared is None else compared
    assert np.any(compared)
    worst = np.argmax(np.where(compared, distance, 0))
    assert distance[worst] <= bound or not compared[worst], (
        f"{name}({operand[worst]}) is {actual[worst]}, {distance[worst]:g} steps off"
    )


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_floats_against_xla(results, name, kind):
    operand, actual = results(kind, "XLA")
    # XLA:CPU gives nonsense for the cube root of denormal numbers.
    compared = flush_denormals(operand) == operand if name == "cbrt" else None
    bound = XLA_STEPS[name][kind == "f64"]
    assert_close(name, operand, actual[name], bound, compared)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_floats_against_the_interpreter(results, name, kind):
    operand, actual = results(kind, "interpreter")
    assert_close(name, operand, actual[name], INTERPRETER_STEPS[name][kind == "f64"])


@pytest.mark.parametrize("kind", [n for n in NARROW if n not in ("f6e2m3fn", "f6e3m2fn")])
@pytest.mark.parametrize("name", NAMES)
def test_narrow_floats_against_xla(results, name, kind):
    operand, actual = results(kind, "XLA")
    compared = np.ones(operand.shape, bool)
    if kind == "f8e8m0fnu":
        compared = operand != operand[0]  # 2**-127 is a denormal f32, which XLA takes for 0.
    if kind == "bf16" and name == "cbrt":
        compared = flush_denormals(operand) == operand
    # XLA:CPU computes types of 8 bits in f16, and f16 functions in steps that are rounded each.
    assert_close(name, operand, actual[name], 2 if kind == "f16" else 1, compared)


# The interpreter takes f8e8m0fnu for a type with a sign.
@pytest.mark.parametrize("kind", [n for n in NARROW if n != "f8e8m0fnu"])
@pytest.mark.parametrize("name", NAMES)
def test_narrow_floats_against_the_interpreter(results, name, kind):
    operand, actual = results(kind, "interpreter")
    compared = np.ones(operand.shape, bool)
    if name == "logistic" and kind in OVERFLOWING_LOGISTIC:
        compared = operand >= np.array(0, operand.dtype)
    if kind in WITHOUT_INFINITY:
        operation = REGISTRY[name.capitalize()]()
        compared = np.isfinite(operation.reference(operand.astype(np.float64)))
    bound = {"logistic": 2, "cosh": 1}.get(name, 0)
    assert_close(name, operand, actual[name], bound, compared)


def moderate(operand):
    """Which numbers have parts that are 0 or neither tiny nor huge."""
    sizes = np.abs(np.stack([operand.real, operand.imag]))
    return np.all((sizes == 0) | ((sizes > 1e-30) & (sizes < 1e30)), axis=0)


def below_the_cut(operand):
    """Which numbers are negative reals with imaginary part -0."""
    return (operand.real < 0) & (operand.imag == 0) & np.signbit(operand.imag)


def assert_close_in_the_plane(name, operand, actual, bound, compared):
    expected = REGISTRY[name.capitalize()]().reference(operand)
    distance = np.where(compared, ulp_distance(actual, expected, normwise=True), 0)
    worst = np.argmax(distance)
    assert distance[worst] <= bound, (
        f"{name}({operand[worst]}) is {actual[worst]}, not {expected[worst]}"
    )


# What an oracle allows, and where it takes the other side of the cut.
PLANE = {"XLA": (XLA_STEPS, "sqrt"), "interpreter": (INTERPRETER_STEPS, "log1p")}


@pytest.mark.parametrize("oracle", PLANE)
@pytest.mark.parametrize("kind", COMPLEX)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "erf"])
def test_complex_against(results, name, kind, oracle):
    operand, actual = results(kind, oracle)
    steps, other_side = PLANE[oracle]
    compared = moderate(operand)
    if name == other_side:
        compared &= ~below_the_cut(operand)
    expected = REGISTRY[name.capitalize()]().reference(operand)
    distance = ulp_distance(actual[name], expected, normwise=True)
    distance = np.where(compared, distance, 0)
    worst = np.argmax(distance)
    assert distance[worst] <= steps[name][2 + (kind == "c128")], (
        f"{name}({operand[worst]}) is {actual[name][worst]}, not {expected[worst]}"
    )


@pytest.mark.parametrize("kind", COMPLEX)
@pytest.mark.parametrize(
    "name", ["exp", "expm1", "log", "logistic", "rsqrt", "sqrt", "tan", "tanh"]
)
def test_infinities_and_nans_of_complex_numbers(results, name, kind):
    # Annex G of the C standard, which the interpreter follows and XLA:CPU does not.
    operand, actual = results(kind, "interpreter")
    edges = ~np.isfinite(operand)
    expected = REGISTRY[name.capitalize()]().reference(operand)
    assert_same(expected[edges], actual[name][edges], signed_zeros=False, inputs=[operand[edges]])


@pytest.mark.parametrize("kind", COMPLEX)
@pytest.mark.parametrize("name", ["cos", "cosh", "sin"])
def test_overflow_of_complex_numbers(name, kind):
    # The other part is 0 or has the sign of the finite factor: never 0 * inf.
    along = np.array([complex(a, b) for a in (0.0, -0.0, 1.0, -2.0) for b in (1000.0, -1000.0)])
    operand = (
        along if name != "cosh" else special.with_parts(np.imag(along), np.real(along))
    ).astype(ELEMENT_TYPES[kind].dtype)
    check_operation(getattr(ops, name), [operand])


# Operands of which XLA:CPU and StableHLO's interpreter give different values: op, operand, what
# XLA gives and what the interpreter and the reference give.
PARTINGS = [
    ("sqrt", complex(-1, -0.0), 1j, -1j),
    ("log", complex(math.inf, math.nan), complex(math.nan, math.nan), complex(math.inf, math.nan)),
    ("exp", complex(-math.inf, math.nan), complex(math.nan, math.nan), 0),
    ("sqrt", complex(math.nan, math.inf), complex(math.nan, math.nan), complex(math.inf, math.inf)),
]


@pytest.mark.parametrize(("name", "operand", "by_xla", "by_interpreter"), PARTINGS)
def test_where_xla_parts_from_the_interpreter(name, operand, by_xla, by_interpreter):
    given = np.array([operand], np.complex64)
    text = graph_of(getattr(ops, name), [given]).stablehlo()
    expected = np.array([by_interpreter], np.complex64)
    assert_same(
        run_xla(text, [given])[0], np.array([by_xla], np.complex64), ulp=1, signed_zeros=False
    )
    assert_same(run_stablehlo(text, [given])[0], expected, signed_zeros=False)
    reference = REGISTRY[name.capitalize()]().reference(given)
    assert_same(reference, expected, signed_zeros=False)


SPECIAL_VALUES = [
    # Op, operand, result; -0 is not 0.
    ("cbrt", [-8, -0.0, np.inf, np.nan], [-2, -0.0, np.inf, np.nan]),
    ("cos", [0, -0.0, np.inf], [1, 1, np.nan]),
    ("cosh", [0, np.inf, -np.inf, np.nan], [1, np.inf, np.inf, np.nan]),
    ("erf", [0, -0.0, np.inf, -np.inf, np.nan], [0, -0.0, 1, -1, np.nan]),
    ("exp", [0, -np.inf, np.inf, 1000, -1000], [1, 0, np.inf, np.inf, 0]),
    ("expm1", [0, -0.0, -np.inf, np.inf], [0, -0.0, -1, np.inf]),
    ("log", [1, 0, -0.0, np.inf, -1], [0, -np.inf, -np.inf, np.inf, np.nan]),
    ("log1p", [0, -0.0, -1, np.inf, -2], [0, -0.0, -np.inf, np.inf, np.nan]),
    ("logistic", [0, np.inf, -np.inf, np.nan], [0.5, 1, 0, np.nan]),
    ("rsqrt", [4, 0, -0.0, np.inf, -1], [0.5, np.inf, -np.inf, 0, np.nan]),
    ("sin", [0, -0.0, np.inf, np.nan], [0, -0.0, np.nan, np.nan]),
    ("sqrt", [4, -0.0, np.inf, -1], [2, -0.0, np.inf, np.nan]),
    ("tan", [0, -0.0, -np.inf], [0, -0.0, np.nan]),
    ("tanh", [0, -0.0, np.inf, -np.inf, np.nan], [0, -0.0, 1, -1, np.nan]),
]


def test_special_values():
    names = [name for name, _, _ in SPECIAL_VALUES]
    given = [np.array(operand, np.float32) for _, operand, _ in SPECIAL_VALUES]
    graph = graph_of(
        lambda *xs: [getattr(ops, n)(x) for n, x in zip(names, xs, strict=True)], given
    )
    answers = zip(
        names,
        [np.array(expected, np.float32) for _, _, expected in SPECIAL_VALUES],
        reference_graph(graph, given),
        run_xla(graph.stablehlo(), given),
        run_stablehlo(graph.stablehlo(), given),
        strict=True,
    )
    assert names == NAMES
    for name, expected, *actual in answers:
        for who, each in zip(("reference", "XLA", "interpreter"), actual, strict=True):
            assert_same(each, expected, name=f"{name} by {who}")


# The truth needs more digits than f64 has.
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant > 60
# Steps of the reference from the truth, rounded to the type; f32 and narrower types are at most 1.
TRUE_STEPS = {"cbrt": 3, "expm1": 2, "log1p": 2, "logistic": 3, "rsqrt": 2, "tanh": 2}


@pytest.mark.skipif(not HAS_LONG_DOUBLE, reason="np.longdouble has no more digits than f64")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "erf"])
def test_reference_against_long_double(name):
    operand = real_operand("f64")
    function = {"logistic": special.logistic, "rsqrt": special.rsqrt}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        truth = function(operand.astype(np.longdouble)).astype(np.float64)
    assert_same(
        REGISTRY[name.capitalize()]().reference(operand),
        truth,
        ulp=TRUE_STEPS.get(name, 1),
        inputs=[operand],
    )


def expm1_by_parts(z):
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return special.with_parts(real, np.exp(z.real) * np.sin(z.imag))


def log1p_by_parts(z):
    real = np.log1p(z.real * (2 + z.real) + z.imag**2) / 2
    return special.with_parts(real, np.arctan2(z.imag, 1 + z.real))


@pytest.mark.skipif(not HAS_LONG_DOUBLE, reason="np.longdouble has no more digits than f64")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "erf"])
def test_complex_reference_against_long_double(name):
    operand = complex_operand("c128")
    operand = operand[moderate(operand)]
    operand = operand[np.abs(operand.real) < 300]
    operand = operand[(np.abs(operand.imag) < 300) & (operand != 0)]
    wide = operand.astype(np.clongdouble)
    truth = {
        "cbrt": lambda z: np.exp(np.log(z) / 3),
        "expm1": expm1_by_parts,
        "log1p": log1p_by_parts,
        "logistic": lambda z: 1 / (1 + np.exp(-z)),
        "rsqrt": lambda z: 1 / np.sqrt(z),
    }.get(name) or getattr(np, name)
    assert_same(
        REGISTRY[name.capitalize()]().reference(operand),
        truth(wide).astype(np.complex128),
        # Next to a pole 1 + e**-z cancels.
        ulp=20 if name == "logistic" else 5,
        normwise=True,
        inputs=[operand],
    )


def test_erf_against_the_c_library():
    operand = np.concatenate([real_operand("f64"), np.linspace(-7, 7, 20001)])
    truth = np.array([math.erf(x) for x in operand.tolist()])
    assert_same(special.erf(operand), truth, ulp=1, inputs=[operand])
    assert special.erf(np.array(0.5)).shape == ()


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f8e4m3fn"])
@pytest.mark.parametrize("name", NAMES)
def test_reference_rounds_once(name, kind):
    operand = real_operand(kind)
    wide = REGISTRY[name.capitalize()]().reference(operand.astype(np.float64))
    result = REGISTRY[name.capitalize()]().reference(operand)
    assert result.dtype == operand.dtype
    with np.errstate(all="ignore"):
        assert_same(result, wide.astype(operand.dtype), ulp=1)


@pytest.mark.parametrize("name", NAMES)
def test_rejected_element_types(name):
    for kind, each in ELEMENT_TYPES.items():
        if each.is_float or (each.is_complex and name != "erf"):
            trace_to_graph(lambda x: [getattr(ops, name)(x)], [Shape(kind, ())])
        else:
            with pytest.raises(ShapeError, match=rf"{name}: \(C2\) element type {kind} is not"):
                trace_to_graph(lambda x: [getattr(ops, name)(x)], [Shape(kind, ())])


# Rule RA: result_accuracy.

ACCURACIES = [
    (
        "HIGHEST",
        "mode = #stablehlo.result_accuracy_mode<HIGHEST>",
        "result_accuracy={mode=highest}",
    ),
    (
        ops.ResultAccuracy(atol=1e-5, ulps=2),
        "atol = 1.0000000000000001e-05, rtol = 0.0000000000000000e+00, ulps = 2, "
        "mode = #stablehlo.result_accuracy_mode<TOLERANCE>",
        "result_accuracy={tolerance={atol=1e-05, rtol=0.0, ulps=2}}",
    ),
    (
        "#stablehlo.result_accuracy<atol = 1.000000e-05, mode = "
        "#stablehlo.result_accuracy_mode<TOLERANCE>>",
        "atol = 1.0000000000000001e-05",
        "result_accuracy={tolerance={atol=1e-05, rtol=0.0, ulps=0}}",
    ),
]


def test_exactly_the_fourteen_named_operations_take_an_accuracy():
    takers = {o.builder_name for o in REGISTRY.values() if "result_accuracy" in o.fields}
    assert takers == set(NAMES)
    builders = {n for n in ops.__all__ if callable(getattr(ops, n)) and n != "ResultAccuracy"}
    takers = {
        n for n in builders if "result_accuracy" in inspect.signature(getattr(ops, n)).parameters
    }
    assert takers == set(NAMES)


@pytest.mark.parametrize(("accuracy", "stablehlo", "hlo"), ACCURACIES)
def test_accuracy_in_texts(accuracy, stablehlo, hlo):
    graph = graph_of(lambda x: ops.tanh(x, result_accuracy=accuracy), [np.zeros(3, np.float32)])
    assert stablehlo in graph.stablehlo()
    assert hlo in str(graph)


@pytest.mark.parametrize("accuracy", [accuracy for accuracy, _, _ in ACCURACIES])
def test_accuracy_changes_no_function(accuracy):
    operand = random_values(np.float32, (300,), 6)
    graph = graph_of(lambda x: [getattr(ops, n)(x, accuracy) for n in NAMES], [operand])
    expected = reference_graph(graph, [operand])
    for run in (run_xla, run_stablehlo):
        for name, one, other in zip(
            NAMES, expected, run(graph.stablehlo(), [operand]), strict=True
        ):
            assert_same(one, other, ulp=4, name=name)


def test_operations_without_the_attribute_in_stablehlo_drop_it():
    operand = [np.zeros(3, np.float32)]
    for name in ("erf", "cosh"):
        graph = graph_of(lambda x, name=name: getattr(ops, name)(x, "HIGHEST"), operand)
        assert "result_accuracy" not in graph.stablehlo()
        assert "result_accuracy={mode=highest}" in str(graph)


@pytest.mark.parametrize(
    ("accuracy", "phrase"),
    [
        ("BEST", "neither a mode nor a #stablehlo.result_accuracy"),
        (3, "must be a ResultAccuracy or a string"),
        ("#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<TOLERANCE>>", "mode"),
    ],
)
def test_rejected_accuracies(accuracy, phrase):
    check_rejected(
        lambda x: ops.exp(x, accuracy),
        [np.zeros(3, np.float32)],
        AttributeValueError,
        "exp",
        phrase,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "HIGHEST", "ulps": 1}, r"mode HIGHEST does not match .* = \(0.0, 0.0, 1\)"),
        ({"atol": -1.0}, r"must be numbers >= 0, not \(-1.0, 0.0, 0\)"),
        ({}, "mode TOLERANCE does not match"),
        ({"mode": "TOLERANCE"}, "mode TOLERANCE does not match"),
        ({"mode": "best"}, "mode must be one of DEFAULT, HIGHEST, TOLERANCE, not 'best'"),
    ],
)
def test_rejected_accuracy_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        ops.ResultAccuracy(**fields)


def test_neg_takes_no_accuracy():
    with pytest.raises(TypeError):
        ops.neg(np.zeros(3, np.float32), result_accuracy="HIGHEST")


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (2, 3), (2, 0, 3), (2, 1, 2, 1)])
def test_ranks(sizes):
    operand = random_values(np.float32, sizes, 7, 0.5, 2)
    graph = graph_of(functions(NAMES), [operand])
    expected = reference_graph(graph, [operand])
    for run in (run_xla, run_stablehlo):
        for name, one, other in zip(
            NAMES, expected, run(graph.stablehlo(), [operand]), strict=True
        ):
            assert_same(one, other, ulp=4, name=name)


@pytest.mark.parametrize("name", ["erf", "cosh", "sin"])
def test_batching(name):
    dtype = np.float64 if name == "erf" else np.complex128
    check_batching(getattr(ops, name), [random_values(dtype, (2, 3), 8)])
