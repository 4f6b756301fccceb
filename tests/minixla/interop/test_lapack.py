"""LAPACK in programs that JAX lowered for the CPU: in NumPy, by XLA, batched, as operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla_ops.host import custom_call
from tests.harness import by_jax, through_stablehlo
from tests.selection import diagonal

Pairs = list[tuple[Any, Any]]


def matrices(kind: str, rows: int, columns: int) -> np.ndarray:
    """Two matrices far from singular ones."""
    generator = np.random.default_rng(3)
    sizes = (2, rows, columns)
    found = generator.normal(size=sizes) + 3 * np.eye(rows, columns)
    if np.dtype(kind).kind == "c":
        found = found + 1j * generator.normal(size=sizes)
    return found.astype(kind)


def adjoint(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix.conj(), -1, -2)


def positive(a: np.ndarray) -> np.ndarray:
    return (a + adjoint(a)) / 2 + 5 * np.eye(a.shape[-1], dtype=a.dtype)


def unitary(q: np.ndarray) -> tuple[Any, Any]:
    return adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2))


def of_svd(a: np.ndarray, u: Any, s: Any, v: Any) -> Pairs:
    count = s.shape[-1]
    product = (u[..., :count] * s[..., None, :]) @ v[..., :count, :]
    return [(product, a), unitary(u), unitary(adjoint(v)), (s, -np.sort(-s))]


def of_schur(a: np.ndarray, t: Any, q: Any) -> Pairs:
    return [(q @ t @ adjoint(q), a), unitary(q)]


def left_and_right(a: Any) -> Any:
    return lax.linalg.eig(a, compute_left_eigenvectors=True)


def by_reflections(a: Any) -> Any:
    """R, and Q^H a, of an unblocked product."""
    transposed, factors = jnp.linalg.qr(a, mode="raw")
    h = jnp.swapaxes(transposed, -1, -2)
    return (
        jnp.triu(h),
        lax.linalg.ormqr(h, factors, a, transpose=True),
        lax.linalg.ormqr(h, factors, jnp.swapaxes(a, -1, -2), left=False),
    )


def of_reflections(a: np.ndarray, r: Any, moved: Any, right: Any) -> Pairs:
    q = np.linalg.solve(np.swapaxes(r, -1, -2), np.swapaxes(a, -1, -2)).swapaxes(-1, -2)
    return [(moved, r), (right, np.swapaxes(a, -1, -2) @ q)]


#: A function of JAX's, rows and columns of its matrices, and pairs that are equal.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, int], Callable[..., Pairs]]] = {
    "eigh": (
        jnp.linalg.eigh,
        (4, 4),
        lambda a, w, v: [(positive(a) @ v, v * w[:, None, :]), unitary(v), (w, np.sort(w))],
    ),
    "eigvalsh": (
        jnp.linalg.eigvalsh,
        (4, 4),
        lambda a, w: [(w, np.linalg.eigvalsh(positive(a)))],
    ),
    "eig": (
        left_and_right,
        (4, 4),
        lambda a, w, left, right: [
            (a @ right, right * w[:, None, :]),
            (adjoint(left) @ a, adjoint(left) * w[:, :, None]),
            (np.linalg.norm(left, axis=-2), np.ones((2, 4))),
            (np.linalg.norm(right, axis=-2), np.ones((2, 4))),
        ],
    ),
    "eigvals": (
        jnp.linalg.eigvals,
        (4, 4),
        lambda a, w: [(np.sort(w), np.sort(np.linalg.eigvals(a)))],
    ),
    "svd": (jnp.linalg.svd, (4, 3), of_svd),
    "thin svd": (functools.partial(jnp.linalg.svd, full_matrices=False), (3, 5), of_svd),
    "svdvals": (
        jnp.linalg.svdvals,
        (4, 3),
        lambda a, s: [(s, np.linalg.svd(a, compute_uv=False))],
    ),
    "svd by QR": (
        lambda a: [lax.linalg.svd(a, algorithm=lax.linalg.SvdAlgorithm.QR)[i] for i in (0, 1, 2)],
        (4, 4),
        of_svd,
    ),
    "qr": (
        jnp.linalg.qr,
        (4, 3),
        lambda a, q, r: [(q @ r, a), unitary(q), (np.tril(r, -1), np.zeros_like(r))],
    ),
    "complete qr": (
        functools.partial(jnp.linalg.qr, mode="complete"),
        (4, 3),
        lambda a, q, r: [(q @ r, a), unitary(q)],
    ),
    "wide qr": (jnp.linalg.qr, (3, 5), lambda a, q, r: [(q @ r, a), unitary(q)]),
    "reflections": (by_reflections, (3, 3), of_reflections),
    "lu": (jax.vmap(jax.scipy.linalg.lu), (4, 3), lambda a, p, low, u: [(p @ low @ u, a)]),
    "solve": (
        lambda a: jnp.linalg.solve(a, a + 1),
        (4, 4),
        lambda a, x: [(a @ x, a + 1)],
    ),
    "inv": (jnp.linalg.inv, (4, 4), lambda a, x: [(a @ x, np.stack([np.eye(4)] * 2))]),
    "slogdet": (
        jnp.linalg.slogdet,
        (4, 4),
        lambda a, sign, log: list(zip((sign, log), np.linalg.slogdet(a), strict=True)),
    ),
    "det": (jnp.linalg.det, (4, 4), lambda a, d: [(d, np.linalg.det(a))]),
    "cholesky": (
        jnp.linalg.cholesky,
        (4, 4),
        lambda a, factor: [(factor @ adjoint(factor), positive(a))],
    ),
    "pinv": (jnp.linalg.pinv, (4, 3), lambda a, x: [(x, np.linalg.pinv(a))]),
    "lstsq": (
        jax.vmap(lambda a: jnp.linalg.lstsq(a, a[:, 0] + 1)[0]),
        (4, 3),
        lambda a, x: [(x, [np.linalg.lstsq(m, m[:, 0] + 1)[0] for m in a])],
    ),
}
#: Of Hermitian matrices only.
HERMITIAN = {"eigh", "eigvalsh", "cholesky"}
FORMS = {"stablehlo": mx.import_stablehlo, "hlo": mx.import_hlo}


def imported(function: Callable[..., Any], form: str, *arguments: Any) -> Any:
    lowered = jax.jit(function).lower(*arguments)
    return FORMS[form](lowered.as_text() if form == "stablehlo" else lowered.compile().as_text())


def as_list(results: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in jax.tree.leaves(results)]


def check(program: str, kind: str, form: str) -> None:
    function, sizes, pairs = PROGRAMS[program]
    with jax.enable_x64(True):
        a = matrices(kind, *sizes)
        if program in HERMITIAN:
            a = positive(a)
        read = imported(function, form, a)
        stack = np.stack([a, a[::-1]])
        ways = {
            "reference": mx.reference(read)(a),
            "xla": mx.jit(read)(a),
            "vmap": mx.jit(mx.vmap(read))(stack),
            "vmap in NumPy": mx.reference(mx.vmap(read))(stack),
        }
        declared = [shape.dtype for shape in read.graph.output_shapes]
        bound = 400 * np.finfo(kind).eps
        for name, results in ways.items():
            found = as_list(results)
            assert [each.dtype for each in found] == declared
            members = (
                [found] if "vmap" not in name else [[each[i] for each in found] for i in (0, 1)]
            )
            for matrix, member in zip((a, a[::-1]), members, strict=False):
                given = matrix - 5 * np.eye(4, dtype=kind) if program in HERMITIAN else matrix
                for left, right in pairs(given, *member):
                    np.testing.assert_allclose(left, right, rtol=bound, atol=30 * bound)


# The next test has all pairs.
@pytest.mark.parametrize(
    ("program", "kind"), [(name, ("f4", "c16")[at % 2]) for at, name in enumerate(PROGRAMS)]
)
def test_every_way_gives_the_factors(program, kind):
    check(program, kind, "stablehlo")


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_element_type_gives_the_factors(program, kind, form):
    check(program, kind, form)


@pytest.mark.parametrize("program", ["eigh", "svd", "qr", "lu", "eig", "solve"])
def test_compiled_programs_are_read_alike(program):
    check(program, "f4", "hlo")


@pytest.mark.parametrize("program", ["qr", "lu", "svd"])
def test_double_precision_is_that_of_double(program):
    function, sizes, pairs = PROGRAMS[program]
    a = matrices("f4", *sizes)
    found = as_list(mx.reference(imported(function, "stablehlo", a), precision="float64")(a))
    for left, right in pairs(a.astype(np.float64), *found):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_cholesky_and_triangular_systems_are_operations(form):
    """So that they have derivatives, which are JAX's."""
    a = positive(matrices("f4", 4, 4))

    def function(a):
        factor = jnp.linalg.cholesky(a)
        return lax.linalg.triangular_solve(
            factor, a + 1, left_side=True, lower=True, unit_diagonal=True
        )

    read = imported(function, form, a)
    text = str(read.graph) + "".join(str(each.graph) for each in read.functions.values())
    assert "custom-call" not in text
    assert "cholesky(" in text
    assert "triangular-solve(" in text
    expected = by_jax(jax.grad(lambda a: jnp.sum(jnp.sin(function(a)))), a)
    found = mx.grad(lambda a: mx.numpy.sum(mx.numpy.sin(read(a))))(a)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_eigenvalues_and_singular_values_are_operations(form):
    """So that they have derivatives, which are JAX's."""
    a = positive(matrices("f4", 3, 3)) + 0.3

    def function(a):
        values, vectors = jnp.linalg.eigh(a)
        u, s, _ = jnp.linalg.svd(a)
        others = jnp.linalg.eigvals(a).real, jnp.linalg.svdvals(a), jnp.linalg.eigvalsh(a)
        return sum(jnp.sum(x * x * jnp.arange(3)) for x in (values, vectors, u, s, *others))

    read = imported(function, form, a)
    text = str(read.graph) + "".join(str(each.graph) for each in read.functions.values())
    assert "lapack_s" not in text
    for name in ("minixla.Eigh", "minixla.Eig", "minixla.Svd"):
        assert f'"{name}"' in text
    expected = by_jax(jax.grad(function), a)
    np.testing.assert_allclose(mx.grad(read)(a), expected, rtol=1e-3, atol=1e-2)


BROKEN = np.stack([np.eye(3), np.full((3, 3), np.nan), np.diag([1, 2, 3])]).astype(np.float32)


@pytest.mark.parametrize("function", [jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.eig])
def test_one_matrix_without_a_result_leaves_the_others_alone(function):
    read = imported(function, "stablehlo", BROKEN)
    for evaluate in (mx.reference, mx.jit):
        for each in as_list(evaluate(read)(BROKEN)):
            is_lost = np.isnan(each).reshape(3, -1).any(1)
            assert is_lost.tolist() == [False, True, False]


def test_the_factors_of_singular_matrices():
    """LAPACK says where the first zero stands on the diagonal of U; JAX drops it."""
    a = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 1], [1, 0]]], np.float32)
    text = """
    func.func @main(%x: tensor<3x2x2xf32>)
        -> (tensor<3x2x2xf32>, tensor<3x2xi32>, tensor<3xi32>) {
      %0:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%x) {
          mhlo.backend_config = {}, api_version = 4 : i32,
          operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],
          result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>,
                            dense<[0]> : tensor<1xindex>]}
          : (tensor<3x2x2xf32>) -> (tensor<3x2x2xf32>, tensor<3x2xi32>, tensor<3xi32>)
      return %0#0, %0#1, %0#2 : tensor<3x2x2xf32>, tensor<3x2xi32>, tensor<3xi32>
    }"""
    read = mx.import_stablehlo(text)
    lu, pivots, info = mx.reference(read)(a)
    assert pivots.tolist() == [[2, 2], [1, 2], [2, 2]]
    assert info.tolist() == [2, 1, 0]
    for found, expected in zip((lu, pivots, info), mx.jit(read)(a), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(mx.ImportError_, match=r"of lapack_sgetrf_ffi: Tmn ->"):
        mx.import_stablehlo(text.replace("3x2xi32", "3x7xi32"))
    rows = text.replace("dense<[1, 2, 0]>", "dense<[2, 1, 0]>")
    with pytest.raises(mx.TransformError, match="'lapack_sgetrf_ffi' has no Python function"):
        mx.reference(mx.import_stablehlo(rows))(a)  # the transposed matrix's, which is another call


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("mode = 86 : ui8, ", "", "'mode'"),
        ("mode = 86 : ui8", "mode = 77 : ui8", "mode is 'M', not one of V, N"),
        ("uplo = 76 : ui8", "uplo = 90 : ui8", "uplo is 'Z', not one of L, U"),
    ],
)
def test_a_call_without_its_options_is_refused_in_numpy(old, new, problem):
    a = matrices("f4", 3, 3)[0]
    text = jax.jit(jnp.linalg.eigh).lower(a).as_text()
    assert old in text
    read = mx.import_stablehlo(text.replace(old, new))
    problem = rf"ssyevd_ffi are invalid: .*{problem}"
    with pytest.raises(mx.TransformError, match=problem):
        mx.reference(read)(a)


#: Routines that no operation of ours stands for.
OTHERS = {
    "gees": lambda a: jax.scipy.linalg.schur(a),
    "gehrd": lambda a: jax.scipy.linalg.hessenberg(a),
    "geqp3": lambda a: jax.scipy.linalg.qr(a, pivoting=True),
    "sytrd": lambda a: lax.linalg.tridiagonal(a),
    "gtsv": lambda a: lax.linalg.tridiagonal_solve(a[0], a[1] + 5, a[2], a),
}


@pytest.mark.parametrize(("routine", "kind"), diagonal([*OTHERS], ["f4", "c16"]))
def test_other_routines_run_by_xla_and_by_scipy(routine, kind):
    with jax.enable_x64(True):
        a = matrices(kind, 3, 3)[0]
        a = positive(a) if routine == "sytrd" else a
        read = imported(OTHERS[routine], "stablehlo", a)
        expected = as_list(by_jax(OTHERS[routine], a))
        for evaluate in (mx.jit, mx.reference):
            stacked = [x[1] for x in as_list(evaluate(mx.vmap(read))(np.stack([a, a])))]
            for results in (as_list(evaluate(read)(a)), stacked):
                for found, wanted in zip(results, expected, strict=True):
                    # Signs of Schur vectors are up to rounding errors.
                    np.testing.assert_allclose(abs(found), abs(wanted), rtol=1e-4, atol=1e-5)
            empty = as_list(evaluate(mx.vmap(read))(np.stack([a, a])[:0]))
            assert [x.shape for x in empty] == [(0, *x.shape) for x in expected]


@pytest.mark.parametrize("function", [jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.eigvals])
def test_calls_of_other_layouts_are_not_taken_for_operations(function):
    """They compute something of the transposed matrix."""
    a = matrices("f4", 3, 3)[0]
    text = jax.jit(function).lower(a).as_text()
    columns = "operand_layouts = [dense<[0, 1]>"
    assert text.count(columns) == 1
    other = mx.import_stablehlo(text.replace(columns, "operand_layouts = [dense<[1, 0]>"))
    assert "lapack_s" in str(other.graph)
    transposed = by_jax(lambda a: function(a.T), a)
    for found, wanted in zip(as_list(mx.jit(other)(a)), as_list(transposed), strict=True):
        np.testing.assert_allclose(abs(found), abs(wanted), rtol=1e-4, atol=1e-5)


def test_a_batch_of_none():
    a = matrices("f4", 3, 3)
    read = imported(jnp.linalg.qr, "stablehlo", a[0])
    for evaluate in (mx.reference, mx.jit):
        assert [each.shape for each in evaluate(mx.vmap(read))(a[:0])] == [(0, 3, 3)] * 2


@pytest.mark.parametrize("sizes", [(0, 0), (2, 0, 0), (0, 3, 3)])
@pytest.mark.parametrize("form", FORMS)
def test_cholesky_factors_of_nothing(form, sizes):
    a = np.zeros(sizes, "f4")
    read = imported(jnp.linalg.cholesky, form, a)
    for evaluate in (mx.reference, mx.jit):
        (found,) = as_list(evaluate(read)(a))
        assert found.shape == sizes
    assert mx.grad(lambda x: mx.numpy.sum(read(x)))(a).shape == sizes


def test_programs_come_back_from_their_text():
    a = matrices("f4", 3, 3)
    for function in (jnp.linalg.qr, jnp.linalg.eigh, jnp.linalg.solve):
        arguments = (a, a) if function is jnp.linalg.solve else (a,)
        graph = imported(function, "stablehlo", *arguments).graph
        assert mx.import_stablehlo(graph.stablehlo()).graph == graph


def test_a_registered_function_goes_first(monkeypatch):
    def schur(a, mode, sort):
        zero = np.zeros((), np.int32)
        return np.triu(a), np.eye(3, dtype=a.dtype), np.diagonal(a), 0 * np.diagonal(a), zero, zero

    # What is registered stays so: afterwards it is not.
    monkeypatch.setattr(custom_call, "_FUNCTIONS", {})
    ops.register_custom_call("lapack_dgees_ffi", schur)
    with jax.enable_x64(True):
        a = np.triu(matrices("f8", 3, 3)[0])
        read = imported(lambda a: jax.scipy.linalg.schur(a), "stablehlo", a)
        for evaluate in (mx.reference, mx.jit):
            np.testing.assert_array_equal(evaluate(read)(a)[0], a)


@pytest.mark.parametrize(("function", "sign"), [(lax.approx_max_k, 1), (lax.approx_min_k, -1)])
@pytest.mark.parametrize("form", FORMS)
def test_an_approximate_selection_is_exact(function, sign, form):
    x = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    order = np.argsort(-sign * x, axis=-1)[:, :4]
    read = imported(functools.partial(function, k=4), form, x)
    for evaluate in (mx.reference, mx.jit):
        values, indices = evaluate(read)(x)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
    gradient = mx.grad(lambda x: mx.numpy.sum(read(x)[0]))(x)
    chosen = np.zeros_like(x)
    np.put_along_axis(chosen, order, 1, -1)
    np.testing.assert_array_equal(gradient, chosen)


def test_an_approximate_selection_of_more_elements_gives_them_in_order():
    x = np.random.default_rng(0).normal(size=(2, 2000)).astype(np.float32)
    function = functools.partial(lax.approx_max_k, k=4, aggregate_to_topk=False)
    read = imported(function, "stablehlo", x)
    expected = by_jax(function, x)
    for found, wanted in zip(mx.reference(read)(x), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert read.graph.output_shapes[0] is Shape("f32", np.shape(expected[0]))


def test_what_jax_lowers_for_no_library_is_known_too():
    a = matrices("f4", 4, 3)
    program = jnp.linalg.qr
    stack = np.stack([a, 2 * a])
    for evaluate in (mx.reference, mx.jit):
        q, r = evaluate(program)(a)
        np.testing.assert_allclose(q @ r, a, rtol=1e-5, atol=1e-5)
        q, r = evaluate(mx.vmap(program))(stack)
        np.testing.assert_allclose(q @ r, stack, rtol=1e-5, atol=1e-5)
    read = through_stablehlo(jnp.linalg.qr)
    found = mx.grad(lambda a: mx.numpy.sum(read(a)[1]))(a[0])
    expected = by_jax(jax.grad(lambda a: jnp.sum(jnp.linalg.qr(a)[1])), a[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    graph = mx.make_graph(program)(a)
    assert "ProductOfElementaryHouseholderReflectors" in graph.stablehlo()
    batched = mx.reference(mx.vmap(read))(stack)
    for found, wanted in zip(mx.jit(mx.vmap(read))(stack), batched, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_stack_that_is_split_over_devices_stays_split():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    a = np.concatenate([matrices("f4", 3, 3)] * 4)
    read = imported(lambda a: lax.linalg.eigh(a, symmetrize_input=False), "stablehlo", a)
    for found in mx.jit(read)(jax.device_put(a, split)):
        assert found.sharding.is_equivalent_to(split, found.ndim)
