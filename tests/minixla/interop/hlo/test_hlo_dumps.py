"""HLO that JAX prints, imported: the reference gives what the compiled program gives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
from minixla.reference_evaluator import seed
from tests.minixla.interop.hlo.hlo_programs import PROGRAMS, X, Y, check, dump, in_steps, whole_text
from tests.selection import diagonal

ROOT = Path(__file__).parents[4]


#: Each program takes one of these in turn.
FORMS = ("unoptimised", "optimised")


@pytest.mark.parametrize(("name", "form"), diagonal([*PROGRAMS], FORMS))
def test_the_reference_gives_what_xla_gives(name, form):
    function, arguments, ulp = PROGRAMS[name]
    made = dump(function, arguments)
    check(getattr(made, form), arguments, made.results, ulp)


def test_the_bound_of_a_sum_is_not_idle():
    """A sum that XLA takes in another order is not equal, so that the comparison sees results."""
    made = dump(lambda x: jnp.sum(jnp.sin(x)), (X,))
    actual = mx.reference(mx.import_hlo(made.optimised))(X)
    assert in_steps(actual + np.float32(1e-5), made.results[0]) > 24


def test_all_ways_of_printing():
    """XLA's printer with and without percent signs, layouts, metadata, shapes of operands."""
    from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

    function, arguments, ulp = PROGRAMS["gradient of max pooling"]
    compiled = jax.jit(function).lower(*arguments).compile()
    wanted = [np.asarray(compiled(*arguments))]
    (module,) = compiled.runtime_executable().hlo_modules()
    variants = [_hlo.HloPrintOptions() for _ in range(6)]
    variants[1].print_percent = False
    variants[2].print_operand_shape = True
    variants[3].print_metadata = False
    variants[3].print_backend_config = False
    variants[4] = _hlo.HloPrintOptions.short_parsable()
    variants[5].print_operand_shape = True
    variants[5].include_layout_in_shapes = True
    variants[5].print_program_shape = False
    texts = []
    for each in variants:
        each.print_large_constants = True
        texts.append(module.to_string(each))
    assert len(set(texts)) >= 5
    for text in texts:
        check(text, arguments, wanted, ulp)
    first, *others = [mx.import_hlo(text).graph for text in texts]
    assert all(each == first for each in others)


# What is special in some dumps.


def test_source_lines():
    made = dump(lambda x: jnp.sin(x) + 1, (X,))
    imported = mx.import_hlo(made.optimised)
    text = "".join(str(each.graph) for each in imported.functions.values())
    found = set(re.findall(r'source_file="([^"]*)" source_line=(\d+)', text))
    files = {file for file, _ in found}
    assert any(file.endswith("test_hlo_dumps.py") for file in files), files


def test_functions_are_all_computations():
    made = dump(lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x), (X,))
    imported = mx.import_hlo(made.optimised)
    names = re.findall(r"^(?:ENTRY )?%([\w.-]+) \(", made.optimised, re.MULTILINE)
    assert sorted(imported.functions) == sorted(names)
    body = next(each for name, each in imported.functions.items() if "region_0" in name)
    index, value = mx.reference(body)(np.int32(3), X)
    np.testing.assert_array_equal(index, 4)
    np.testing.assert_array_equal(value, X * 2 + 3)


def test_large_constants_are_elided_by_as_text():
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    compiled = jax.jit(lambda x: x * table).lower(X).compile()
    assert "constant({...})" in compiled.as_text()
    imported = mx.import_hlo(compiled.as_text())
    assert "constant({...})" in str(imported.graph) or any(
        "constant({...})" in str(each.graph) for each in imported.functions.values()
    )
    with pytest.raises(mx.ImportError_, match="omits the value of the constant"):
        mx.reference(imported)(X)
    with pytest.raises(mx.ImportError_, match="omits the value"):
        mx.jit(imported)(X)
    check(whole_text(compiled), (X,), [np.asarray(X * table)], 0)


def test_random_numbers_of_xla():
    """The state of XLA's own generator: its numbers are the backend's, its form is not."""

    def function(low, high):
        return lax.rng_uniform(low, high, (100,))

    made = dump(function, (np.float32(2), np.float32(5)))
    for text in (made.unoptimised, made.optimised):
        seed(3)
        values = np.asarray(mx.reference(mx.import_hlo(text))(np.float32(2), np.float32(5)))
        assert values.shape == (100,)
        assert values.min() >= 2
        assert values.max() < 5
        assert len(set(values.tolist())) > 90
    assert "rng-get-and-update-state" in made.optimised


def test_libraries_are_called_by_name():
    matrix = np.float32([[2, 1, 0, 1], [0, 3, 1, 0], [1, 0, 1, 0], [0, 0, 2, 5]])
    made = dump(jax.scipy.linalg.schur, (matrix,))
    imported = mx.import_hlo(made.optimised)
    triangle, vectors = mx.reference(imported)(matrix)
    np.testing.assert_allclose(vectors @ triangle @ vectors.T, matrix, atol=1e-5)
    (here, _), (moved, _) = mx.jvp(imported, (matrix,), (matrix,))
    np.testing.assert_allclose(moved, here, atol=1e-4)  # its signs are those of the library used


DUMPED = ("gradient of max pooling", "attention")


def test_every_pass_of_xla(tmp_path):
    """What `--xla_dump_to` writes after each pass of XLA:CPU is read, and gives the same."""
    script = (
        "import jax\nfrom tests.minixla.interop.hlo.hlo_programs import PROGRAMS\n"
        f"for name in {DUMPED}:\n"
        "    jax.jit(PROGRAMS[name][0]).lower(*PROGRAMS[name][1]).compile()\n"
    )
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=.* --xla_dump_large_constants"
    environment = {**os.environ, "XLA_FLAGS": flags}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env=environment)
    numbers = sorted({path.name.split(".")[0] for path in tmp_path.glob("module_*.txt")})
    assert len(numbers) == len(DUMPED)
    for number, name in zip(numbers, DUMPED, strict=True):
        _, arguments, ulp = PROGRAMS[name]
        paths = sorted(tmp_path.glob(f"{number}.*.txt"))
        modules = [path for path in paths if path.read_text().lstrip().startswith("HloModule")]
        assert len(modules) > 15
        wanted = np.asarray(mx.reference(mx.import_hlo(modules[0]))(*arguments))
        for path in modules[1:]:
            assert in_steps(mx.reference(mx.import_hlo(path))(*arguments), wanted) <= ulp, path


def test_results_are_compared_by_name_and_number():
    made = dump(lambda x, y: (x + y, (x, y * 2)), (X, Y))
    sum_, first, second = mx.reference(mx.import_hlo(made.optimised))(X, Y)
    np.testing.assert_array_equal(sum_, X + Y)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, Y * 2)
