"""Functions of the array API on whole arrays, held to NumPy's, which follows the standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.minixla.numpy.array_api import Case, question

KINDS = ["bool", *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]]
KINDS += ["float32", "float64", "complex64", "complex128"]
NUMERIC, REAL = KINDS[1:], KINDS[1:-2]
FLOATS, INEXACT = ["float32", "float64"], KINDS[-4:]
SIZES = [(), (3,), (0,), (2, 3), (2, 0, 3), (2, 3, 4)]
AXES = "all any max min prod sum mean std var count_nonzero"


def array(kind: str, *sizes: int) -> np.ndarray:
    """Distinct small numbers in no order."""
    count = int(np.prod(sizes))
    numbers = np.random.default_rng([7, count]).permutation(count).reshape(sizes) + 1
    if kind.startswith("complex"):
        return (numbers - 1j * numbers[..., ::-1] if sizes else numbers - 1j).astype(kind)
    return (numbers % 2).astype(kind) if kind == "bool" else numbers.astype(kind)


def named(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def same(key: str, name: str, *args: Any, **options: Any) -> Case:
    """A check that a function gives what NumPy's does, of the same types and shapes."""
    arrays: list[np.ndarray] = []

    def marked(value: Any) -> Any:
        """The value with the numbers of arrays in their places."""
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return _Place(len(arrays) - 1)
        if isinstance(value, (list, tuple)):
            return type(value)(map(marked, value))
        return value

    given = marked(args), {key: marked(value) for key, value in options.items()}

    def made(xp: Any) -> Callable[..., Any]:
        def filled(value: Any, xs: Any) -> Any:
            if isinstance(value, _Place):
                return xs[value]
            if isinstance(value, (list, tuple)):
                return type(value)([filled(each, xs) for each in value])
            return getattr(xp, value.name) if isinstance(value, np.dtype) else value

        def function(*xs: Any) -> Any:
            keywords = {key: filled(value, xs) for key, value in given[1].items()}
            return named(xp, name)(*filled(given[0], xs), **keywords)

        return function

    def judge(found: Any) -> None:
        with np.errstate(all="ignore"):
            _agree(found, named(np, name)(*args, **options))

    if arrays:
        return Case(made, arrays, {key: judge})
    return question(key, lambda xp: judge(made(xp)()))


class _Place(int):
    """The number of an array among the arguments."""


def _agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            _agree(one, other)
        return
    one, other = np.asarray(found), np.asarray(wanted)
    assert one.shape == other.shape, f"{one.shape} instead of {other.shape}"
    assert one.dtype == other.dtype, f"{one.dtype} instead of {other.dtype}"
    single = one.dtype.name in ("float32", "complex64")
    np.testing.assert_allclose(one, other, rtol=2e-5 if single else 1e-12, atol=1e-5)


def reductions() -> Iterator[Case]:
    """Axes, kept axes and empty arrays; types of results."""
    for name in AXES.split():
        for size in SIZES:
            places = [
                None,
                *range(-len(size), len(size)),
                *([(0, -1), ()] if len(size) > 1 else []),
            ]
            for axis in places:
                if name in ("max", "min", "mean", "std", "var") and 0 in size:
                    continue
                for keepdims in (False, True):
                    options = {"axis": axis, "keepdims": keepdims}
                    key = f"{name} of {size} over {axis}{', kept' * keepdims}"
                    yield same(key, name, array("float64", *size), **options)
        kinds = REAL if name in ("max", "min") else KINDS if name in AXES[:7] else NUMERIC
        kinds = FLOATS if name in ("std", "var") else INEXACT if name == "mean" else kinds
        for kind in kinds:
            yield same(f"{name} of {kind}", name, array(kind, 2, 3))
    for name, size in (("argmax", (3, 4)), ("argmin", (3, 4))):
        for axis in (None, 0, -1):
            for kept in (False, True):
                options = {"axis": axis, "keepdims": kept}
                yield same(f"{name}, {options}", name, array("float32", *size), **options)
    for name in ("std", "var"):
        for correction in (0, 1, 1.5):
            options = {"correction": correction, "axis": 1}
            yield same(f"{name}, {options}", name, array("float64", 3, 4), **options)
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
        for kind in NUMERIC:
            options = {"axis": 1, "dtype": np.dtype(kind)}
            yield same(f"{name} to {kind}", name, array("int8", 2, 3), **options)
    for name in ("cumulative_sum", "cumulative_prod"):
        for kind in NUMERIC:
            yield same(f"{name} of {kind}", name, array(kind, 4))
        for size, axis in (((4,), None), ((2, 3), 0), ((2, 3), -1), ((2, 0), 1)):
            for initial in (False, True):
                options = {"axis": axis, "include_initial": initial}
                yield same(f"{name} of {size}, {options}", name, array("float64", *size), **options)
    for kind in NUMERIC[:-2]:
        yield same(f"diff of {kind}", "diff", array(kind, 5))
    ends = {"prepend": array("float32", 2, 1), "append": array("float32", 2, 2)}
    yield same("diff, n = 2", "diff", array("float32", 2, 5), n=2, axis=0)
    yield same("diff between ends", "diff", array("float32", 2, 5), **ends)


def manipulation() -> Iterator[Case]:
    """Shapes and orders."""
    x, v, cube = array("float32", 2, 3), array("int32", 4), array("float32", 2, 1, 3)
    calls: list[tuple[Any, ...]] = [
        *[("broadcast_to", x, size) for size in ((2, 3), (4, 2, 3), (0, 2, 3))],
        ("broadcast_arrays", x, array("float32", 4, 1, 1), array("int8", 1)),
        *[("expand_dims", x, {"axis": axis}) for axis in (0, 1, 2, -1, -3, (0, 2))],
        *[("flip", x, {"axis": axis}) for axis in (None, 0, -1, (0, 1))],
        *[("moveaxis", cube, *pair) for pair in ((0, -1), ((0, 1), (2, 0)), ((), ()))],
        *[("permute_dims", cube, axes) for axes in ((2, 0, 1), (0, 1, 2))],
        *[("repeat", x, count, {"axis": axis}) for count in (0, 2) for axis in (None, 0, -1)],
        *[("reshape", x, size) for size in ((6,), (3, 2), (-1,), (1, -1, 2))],
        *[("roll", x, *pair) for pair in ((2,), ((1, 2),), (-1,))],
        *[
            ("roll", x, shift, {"axis": axis})
            for shift, axis in ((1, 0), ((1, 2), (0, 1)), (7, -1))
        ],
        *[("squeeze", cube, axis) for axis in (1, -2, (1,))],
        *[("stack", [x, x], {"axis": axis}) for axis in (0, 1, 2, -1, -3)],
        *[("concat", [x, x], {"axis": axis}) for axis in (0, 1, -1, None)],
        *[("tile", x, counts) for counts in ((2,), (1, 2), (2, 1, 2), (0, 1), ())],
        *[("unstack", cube, {"axis": axis}) for axis in (0, 1, -1)],
        *[("tril", x, {"k": k}) for k in (-3, -1, 0, 1, 3)],
        *[("triu", x, {"k": k}) for k in (-3, -1, 0, 1, 3)],
        *[("take", x, np.array([1, 0, 1]), {"axis": axis}) for axis in (0, 1, -1)],
        ("take", v, np.array([3, -1, 0])),
        *[("take_along_axis", x, np.array([[1, 0, 1]]), {"axis": axis}) for axis in (0,)],
        ("take_along_axis", x, np.array([[2], [-1]])),
        *[("meshgrid", v, v[:2], array("int32", 3), {"indexing": way}) for way in ("xy", "ij")],
        ("meshgrid",),
        ("where", x > 3, x, x * 0),
        ("where", x > 3, x, np.array([1.0], "float64")),
        ("clip", x, 2, 4),
        ("clip", x, None, 3),
        ("clip", array("int8", 5), 1, 3),
        ("count_nonzero", array("bool", 3, 4), {"axis": 1}),
        ("searchsorted", np.arange(5.0), np.array([1.5, 2.0, 9.0, -1.0])),
        ("searchsorted", np.arange(5.0), np.array([1.5, 2.0]), {"side": "right"}),
        ("matrix_transpose", array("float64", 2, 3, 4)),
        *[("sort", x, {"axis": axis}) for axis in (0, 1, -1)],
        *[("argsort", x, {"axis": axis}) for axis in (0, 1, -1)],
    ]
    for at, (name, *given) in enumerate(calls):
        options = given.pop() if given and isinstance(given[-1], dict) else {}
        yield same(f"{name}, call {at}", name, *given, **options)
    for kind in REAL:
        yield same(f"sort of {kind}", "sort", array(kind, 2, 7))
        yield same(f"argsort of {kind}", "argsort", array(kind, 7))
        yield same(f"argmax of {kind}", "argmax", array(kind, 7))
        yield same(
            f"searchsorted of {kind}", "searchsorted", np.sort(array(kind, 7)), array(kind, 3)
        )
    for name in ("sort", "argsort"):
        yield _descending(f"{name}, descending", name)


def _descending(key: str, name: str) -> Case:
    given = np.array([3, 1, 3, 2, 1], "int32")
    order = np.array([0, 2, 3, 1, 4])

    def made(xp: Any) -> Callable[..., Any]:
        return lambda x: named(xp, name)(x, descending=True, stable=True)

    wanted = order if name == "argsort" else given[order]
    return Case(made, [given], {key: lambda found: _agree(found, wanted)})


def creation() -> Iterator[Case]:
    """New arrays, of given and default types."""
    for name in ("ones", "zeros"):
        for size in (3, (2, 0), ()):
            yield _made(f"{name}({size})", name, size)
        for kind in KINDS:
            yield _made(f"{name} of {kind}", name, (2,), dtype=kind)
            yield same(f"{name}_like of {kind}", f"{name}_like", array(kind, 2, 3))
    for value, kind in ((True, None), (1, None), (1.5, None), (1j, None), (2, "float32")):
        yield _made(f"full of {value}, {kind}", "full", (2,), value, dtype=kind)
    for given in ((5,), (5.0,), (1, 7, 2), (0, 1, 0.25), (5, 0, -2), (3, 3), (2, -2)):
        yield _made(f"arange{given}", "arange", *given)
    for kind in REAL:
        yield _made(f"arange of {kind}", "arange", 1, 5, dtype=kind)
    for given, options in (((0, 1, 5), {}), ((0, 1, 4), {"endpoint": False}), ((2, 9, 1), {})):
        yield _made(f"linspace{given}, {options}", "linspace", *given, **options)
    yield _made("linspace of complex numbers", "linspace", 0, 1j, 3)
    yield _made("linspace of none", "linspace", 0, 1, 0)
    for given in ((3,), (2, 4)):
        for k in (-2, 0, 1, 5):
            yield _made(f"eye{given}, k = {k}", "eye", *given, k=k)
    for value in (True, 1, 1.5, 1j, [1, 2.0], [[1], [2]], [True, 1]):
        yield _made(f"asarray of {value}", "asarray", value)
    for first in KINDS:
        for second in KINDS:
            if not (first.startswith("complex") and not second.startswith("complex")):
                yield _astype(f"astype {first} to {second}", first, second)
            yield _can_cast(f"can_cast {first} to {second}", first, second)


def _made(key: str, name: str, *args: Any, **options: Any) -> Case:
    """A function of no arrays: what NumPy makes, of a dtype by name."""
    dtype = options.get("dtype")
    return same(key, name, *args, **{**options, **({"dtype": np.dtype(dtype)} if dtype else {})})


def _astype(key: str, first: str, second: str) -> Case:
    given = array(first, 3)

    def made(xp: Any) -> Callable[..., Any]:
        return lambda x: xp.astype(x, getattr(xp, second))

    return Case(made, [given], {key: lambda found: _agree(found, given.astype(second))})


def _can_cast(key: str, first: str, second: str) -> Case:
    def check(xp: Any) -> None:
        wanted = np.can_cast(np.dtype(first), np.dtype(second))
        assert xp.can_cast(getattr(xp, first), getattr(xp, second)) == wanted
        given = xp.ones(2, dtype=getattr(xp, first))
        assert xp.can_cast(given, getattr(xp, second)) == wanted

    return question(key, check)


def integers() -> Iterator[Case]:
    """Operators of integers, by functions and by Python's operators."""
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "floor_divide": lambda a, b: a // b,
        "remainder": lambda a, b: a % b,
        "pow": lambda a, b: a**b,
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "bitwise_left_shift": lambda a, b: a << b,
        "bitwise_right_shift": lambda a, b: a >> b,
        "less": lambda a, b: a < b,
        "equal": lambda a, b: a == b,
    }
    for kind in REAL[:-2]:
        first = np.array([7, 1, 100, 0, 5], kind)
        second = np.array([2, 3, 1, 4, 5], kind)
        if kind.startswith("int"):
            first, second = np.append(first, [-7, -7, 7]), np.append(second, [2, 3, 1])
            first, second = first.astype(kind), second.astype(kind)
        for name, operator in operators.items():
            yield same(f"{name} of {kind}", name, first, second)
            yield _operator(f"operator {name} of {kind}", operator, first, second)
        if kind.startswith("int"):
            for name in ("floor_divide", "remainder"):
                both = np.array([7, -7, 6], kind), np.array([-3, -3, -3], kind)
                yield same(f"{name} of {kind} by negative ones", name, *both)
        for name in ("abs", "negative", "positive", "sign", "square", "bitwise_invert"):
            yield same(f"{name} of {kind}", name, first)
        for name in ("ceil", "floor", "trunc", "round"):
            yield same(f"{name} of {kind}", name, first)
        for name in ("isnan", "isfinite", "isinf"):
            yield same(f"{name} of {kind}", name, first)


def _operator(key: str, function: Callable[..., Any], *given: np.ndarray) -> Case:
    def judge(found: Any) -> None:
        with np.errstate(all="ignore"):
            _agree(found, function(*given))

    return Case(lambda xp: function, given, {key: judge})


def sets() -> Iterator[Case]:
    """Distinct elements, of which NaN are as many as there are. Sizes depend on values: eager."""
    given = {
        "int32": np.array([[3, 1], [3, 2]], "int32"),
        "bool": np.array([True, False, True]),
        "NaN": np.array([np.nan, 1.0, np.nan, 1.0]),
        "zeros": np.array([0.0, -0.0, 1.0]),
        "nothing": np.zeros((0, 2), "float32"),
    }
    for key, x in given.items():
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
            yield _eager(f"{name} of {key}", name, x)
    yield _eager("nonzero", "nonzero", given["int32"] - 3)


def _eager(key: str, name: str, x: np.ndarray) -> Case:
    def check(xp: Any) -> None:
        found: Any = getattr(xp, name)(xp.asarray(x))
        wanted: Any = getattr(np, name)(x)
        if name == "unique_values":
            found, wanted = np.sort(np.asarray(found)), np.sort(wanted)
        if hasattr(wanted, "_fields"):
            assert found._fields == wanted._fields
        _agree(found, wanted)

    return question(key, check)


def products() -> Iterator[Case]:
    """Linear algebra that needs no decomposition; transforms."""
    a, b = array("float64", 2, 3), array("float64", 3, 4)
    cubes = array("float32", 5, 2, 3), array("float32", 5, 3, 2)
    vectors = array("complex64", 4), array("complex64", 4)[::-1].copy()
    yield same("matmul", "matmul", a, b)
    yield same("matmul in batches", "matmul", *cubes)
    yield same("matmul of a vector", "matmul", a, b[:, 0])
    for kind in NUMERIC:
        yield same(f"matmul of {kind}", "matmul", array(kind, 2, 3), array(kind, 3, 2))
        yield same(f"vecdot of {kind}", "vecdot", array(kind, 3), array(kind, 3))
        yield same(
            f"tensordot of {kind}", "tensordot", array(kind, 2, 3), array(kind, 3, 2), axes=1
        )
        yield same(f"linalg.trace of {kind}", "linalg.trace", array(kind, 3, 3))
    yield same("vecdot conjugates", "vecdot", *vectors)
    yield same("vecdot over an axis", "vecdot", a, a, axis=0)
    for axes in (0, 1, ((1,), (0,))):
        yield same(f"tensordot, {axes}", "tensordot", a, b, axes=axes)
    for name, given, options in (
        ("cross", (array("float64", 3), array("float64", 3)[::-1].copy()), {}),
        ("cross", (array("float64", 3, 2), array("float64", 3, 2)[:, ::-1].copy()), {"axis": 0}),
        ("diagonal", (cubes[0],), {"offset": 1}),
        ("matrix_norm", (cubes[0],), {}),
        ("matrix_norm", (cubes[0],), {"ord": 1, "keepdims": True}),
        ("matrix_norm", (cubes[0],), {"ord": float("inf")}),
        ("matrix_power", (array("float64", 3, 3), 3), {}),
        ("matrix_power", (array("float64", 3, 3), 0), {}),
        ("outer", (array("float64", 3), array("float64", 2)), {}),
        ("trace", (cubes[0],), {"offset": 1}),
        *[("vector_norm", (a,), {"ord": ord, "axis": 1}) for ord in (0, 1, 2, 3, float("-inf"))],
        ("vector_norm", (a,), {"keepdims": True}),
        ("vector_norm", (vectors[0],), {}),
    ):
        yield same(
            f"linalg.{name}, {options}, {given[0].shape}", f"linalg.{name}", *given, **options
        )
    x, z = array("float32", 4, 6), array("complex128", 3, 4, 5)
    for norm in ("backward", "ortho", "forward"):
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            given = x if name in ("rfft", "ihfft") else z
            for length, axis in ((None, -1), (3, 0), (8, 1)):
                options = {"n": length, "axis": axis, "norm": norm}
                yield same(f"fft.{name}, {options}", f"fft.{name}", given, **options)
        for name in ("fftn", "ifftn", "rfftn", "irfftn"):
            given = x if name == "rfftn" else z
            for s, axes in ((None, None), ((5, 3), (0, 1)), (None, (1, 0))):
                options = {"s": s, "axes": axes, "norm": norm}
                yield same(f"fft.{name}, {options}", f"fft.{name}", given, **options)
    for name in ("fft", "ifft", "rfft", "hfft", "fftn", "rfftn"):
        for kind in FLOATS if name.startswith("r") else COMPLEX_OR_REAL:
            yield same(f"fft.{name} of {kind}", f"fft.{name}", array(kind, 6))
    for count in (1, 4, 5):
        yield same(f"fft.fftfreq({count})", "fft.fftfreq", count, d=0.1)
        yield same(f"fft.rfftfreq({count})", "fft.rfftfreq", count, d=0.1)
    for axes in (None, 0, (0, 1)):
        yield same(f"fft.fftshift over {axes}", "fft.fftshift", x, axes=axes)
        yield same(f"fft.ifftshift over {axes}", "fft.ifftshift", x, axes=axes)


COMPLEX_OR_REAL = ["complex64", "complex128"]


def inspection() -> Iterator[Case]:
    """What a namespace says of itself, its types and its arrays."""

    def information(xp: Any) -> None:
        info = xp.__array_namespace_info__()
        capabilities = info.capabilities()
        assert set(capabilities) >= {"boolean indexing", "data-dependent shapes", "max dimensions"}
        wanted = {"real floating": np.float64, "complex floating": np.complex128}
        wanted |= {"integral": np.int64, "indexing": np.int64}
        defaults = info.default_dtypes()
        for key, dtype in wanted.items():
            assert np.dtype(defaults[key]) == dtype
        assert set(info.dtypes()) == set(KINDS)
        assert set(info.dtypes(kind="real floating")) == set(FLOATS)
        assert set(info.dtypes(kind=("bool", "signed integer"))) == {*KINDS[:5]}
        assert info.default_device() in [None, *info.devices()]
        xp.zeros(2, device=info.devices()[0])

    yield question("__array_namespace_info__ says all", information)

    def version(xp: Any) -> None:
        assert xp.__array_api_version__ in ("2023.12", "2024.12")

    yield question("version", version)
    for kind in INEXACT:
        yield _limits(f"finfo of {kind}", kind)
    for kind in REAL[:-2]:
        yield _integer_limits(f"iinfo of {kind}", kind)
    groups = {"bool": KINDS[:1], "signed integer": KINDS[1:5], "unsigned integer": KINDS[5:9]}
    groups |= {"integral": KINDS[1:9], "real floating": FLOATS, "complex floating": KINDS[-2:]}
    groups["numeric"] = NUMERIC
    for group, members in groups.items():
        for kind in KINDS:
            yield _is_of(f"isdtype({kind}, {group})", kind, group, kind in members)
    given = array("float32", 2, 3)

    def shapes(x: Any) -> Any:
        assert x.shape == (2, 3)
        assert (x.ndim, x.size) == (2, 6)
        return x.T, x.mT

    wanted = given.T, given.T
    yield Case(lambda xp: shapes, [given], {"attributes": lambda found: _agree(found, wanted)})

    def placed(xp: Any) -> Callable[..., Any]:
        return lambda x: xp.zeros(2, dtype=xp.float32, device=x.device) + x[0, :2]

    yield Case(placed, [given], {"device": lambda found: _agree(found, given[0, :2])})

    def own(xp: Any) -> None:
        assert xp.zeros(2).__array_namespace__() is xp

    yield question("namespace of an array", own)

    def exchange(xp: Any) -> None:
        x = xp.from_dlpack(np.arange(3.0))
        assert isinstance(x, type(xp.zeros(1)))
        np.testing.assert_array_equal(np.from_dlpack(x), [0, 1, 2])

    yield question("dlpack", exchange)


def _limits(key: str, kind: str) -> Case:
    def check(xp: Any) -> None:
        own, wanted = xp.finfo(getattr(xp, kind)), np.finfo(kind)
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            found = getattr(own, name)
            assert found == getattr(wanted, name)
            assert isinstance(found, (int, float)), f"{name} is of {type(found)}"
        assert np.dtype(own.dtype) == wanted.dtype

    return question(key, check)


def _integer_limits(key: str, kind: str) -> Case:
    def check(xp: Any) -> None:
        own, wanted = xp.iinfo(getattr(xp, kind)), np.iinfo(kind)
        assert (own.bits, own.min, own.max) == (wanted.bits, wanted.min, wanted.max)
        assert np.dtype(own.dtype) == wanted.dtype

    return question(key, check)


def _is_of(key: str, kind: str, group: str, wanted: bool) -> Case:
    def check(xp: Any) -> None:
        assert xp.isdtype(getattr(xp, kind), group) is wanted

    return question(key, check)


def indexing() -> Iterator[Case]:
    """Elements by integers, slices, masks and arrays."""
    x = array("float64", 3, 4)
    keys = [0, -1, (1, 2), slice(None, None, -1), (slice(0, 2), slice(1, None, 2)), (Ellipsis, 0)]
    keys += [None, (slice(None), None, 1), (slice(2, 9), -4)]
    for key in keys:
        yield _operator(f"x[{key}]", lambda x, key=key: x[key], x)
    yield _operator("x[i, j]", lambda x, i, j: x[i, j], x, np.array([0, 2]), np.array([1, -1]))

    def masked(xp: Any) -> None:
        _agree(xp.asarray(x)[xp.asarray(x) > 3], x[x > 3])

    yield question("x[mask]", masked)
    for name in ("__float__", "__int__", "__bool__", "__complex__", "__index__"):
        yield _converted(name)


def _converted(name: str) -> Case:
    def check(xp: Any) -> None:
        value = xp.asarray(3) if name == "__index__" else xp.asarray(3.0)
        assert getattr(value, name)() == (True if name == "__bool__" else 3)

    return question(name, check)


def functions() -> Iterator[Case]:
    """All checks of functions of whole arrays."""
    for rows in (
        reductions,
        manipulation,
        creation,
        integers,
        sets,
        products,
        inspection,
        indexing,
    ):
        yield from rows()
