"""Annotations of devices in imported programs: kept, refused with their place, or given up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import minixla as mx
from tests.minixla.interop.import_programs import as_bytecode

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
TYPE = "tensor<4x2xf32>"
MESH = 'sdy.mesh @mesh = <["x"=2]>'
SHARDING = '#sdy.sharding<@mesh, [{"x"}, {}]>'


def program(body: str, argument: str = "", result: str = "", module: str = "") -> str:
    return f"""module attributes {{{module}}} {{
{MESH}
func.func @main(%x: {TYPE} {argument}) -> ({TYPE} {result}) {{
{body} : {TYPE}
return %r : {TYPE}
}}
}}"""


NEGATE = "%r = stablehlo.negate %x"
ANNOTATED = {
    "argument": (
        program(NEGATE, f"{{sdy.sharding = {SHARDING}}}"),
        "line 3, column 1: sdy.sharding of argument 0 of @main",
    ),
    "result": (
        program(NEGATE, "", '{mhlo.sharding = "{devices=[2,1]<=[2]}"}'),
        "line 3, column 1: mhlo.sharding of result 0 of @main",
    ),
    "operation": (
        program(f"{NEGATE} {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{}}]>]>}}"),
        "line 4, column 6: sdy.sharding of stablehlo.negate",
    ),
    "frontend attributes": (
        program(f'{NEGATE} {{mhlo.frontend_attributes = {{xla.sdy.sharding = "a"}}}}'),
        "line 4, column 6: xla.sdy.sharding of stablehlo.negate",
    ),
    "constraint": (
        program(f'%a = sdy.sharding_constraint %x <@mesh, [{{"x"}}, {{}}]> : {TYPE}\n'
                "%r = stablehlo.negate %a"),
        "line 4, column 6: sdy.sharding_constraint describes",
    ),
    "custom call": (
        program(f'%a = stablehlo.custom_call @Sharding(%x) {{mhlo.sharding = "{{replicated}}"}} : '
                f"({TYPE}) -> {TYPE}\n%r = stablehlo.negate %a"),
        "line 4, column 6: custom_call @Sharding describes",
    ),
    "place": (
        program("%a = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true,"
                f" mhlo.frontend_attributes = {{_xla_buffer_placement = \"pinned_host\"}}}} : "
                f"({TYPE}) -> {TYPE}\n%r = stablehlo.negate %a"),
        "line 4, column 6: custom_call @annotate_device_placement describes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", [str, as_bytecode])
@pytest.mark.parametrize("name", ANNOTATED)
def test_annotations_are_refused_or_dropped(name, form):
    text, problem = ANNOTATED[name]
    message = rf"{problem}.*would be lost(.*\n)*.*shardings=\"drop\""
    is_kept = "sdy." in problem and "xla.sdy" not in problem
    for shardings in ["refuse"] if is_kept else ["refuse", "keep"]:
        with pytest.raises(mx.ImportError_, match=message):
            mx.import_stablehlo(form(text), shardings=shardings)
    if is_kept:
        imported = mx.import_stablehlo(form(text))
        np.testing.assert_array_equal(imported(X), -X)
        text = imported.graph.stablehlo()
        assert "sdy.sharding =" in text or "sdy.sharding_constraint" in text
    np.testing.assert_array_equal(mx.import_stablehlo(form(text), shardings="drop")(X), -X)


@pytest.mark.parametrize("name", ANNOTATED)
def test_a_program_for_one_device_may_have_annotations(name):
    text = ANNOTATED[name][0].replace("{}", "{mhlo.num_partitions = 1 : i32}", 1)
    np.testing.assert_array_equal(mx.import_stablehlo(text)(X), -X)


def test_a_mesh_alone_says_nothing_of_values():
    np.testing.assert_array_equal(mx.import_stablehlo(program(NEGATE))(X), -X)


@pytest.mark.parametrize("devices", [1, 2])
def test_programs_of_jax(devices):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("x",))

    def function(x):
        return jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(mesh, P(None, "x"))) * 2

    exported = jax.export.export(jax.jit(function, in_shardings=NamedSharding(mesh, P("x"))))(X)
    if devices > 1:
        with pytest.raises(mx.ImportError_, match=r"sdy\.sharding of argument 0 of @main"):
            mx.import_stablehlo(exported, shardings="refuse")
        kept = mx.import_stablehlo(exported)
        np.testing.assert_allclose(kept(X), 2 * np.sin(X), rtol=1e-6)
        assert '[{}, {"x"}]' in kept.graph.stablehlo()
    imported = mx.import_stablehlo(exported, shardings="refuse" if devices == 1 else "drop")
    np.testing.assert_allclose(imported(X), 2 * np.sin(X), rtol=1e-6)


def test_programs_of_one_device_of_several_are_refused_either_way():
    text = program(f"""%r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
        out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%a: tensor<2x2xf32>) {{
      sdy.return %a : tensor<2x2xf32>
    }} : ({TYPE}) -> {TYPE}
    %s = stablehlo.negate %r""")
    for shardings in ("refuse", "drop"):
        with pytest.raises(mx.ImportError_, match=r"line 4, .*manual_computation (.*\n)*.*Shardy"):
            mx.import_stablehlo(text, shardings=shardings)


def test_there_are_three_ways_to_treat_shardings():
    with pytest.raises(mx.AttributeValueError, match=r'stablehlo: .*\n.*lose.*\n(.*\n)*.*"drop"'):
        mx.import_stablehlo(program(NEGATE), shardings="lose")
