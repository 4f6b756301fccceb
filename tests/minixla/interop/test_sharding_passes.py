"""run_pass: passes of shardings on texts and graphs, in both engines."""

from __future__ import annotations

import pytest

import minixla as mx
from minixla.sharding import operations as sdy
from minixla.sharding import parse_mesh, parse_sharding, run_pass
from tests.oracles.shardy_text import normal_form, written

_BARRIER = """(%x: t8x4) -> t8x4 {
  %b = stablehlo.optimization_barrier %x : t8x4
  %c = sdy.sharding_constraint %b <[{p}, {}]> : t8x4
  return %b : t8x4
}"""
_EDGES, _CONSTRAINTS = "sdy-add-data-flow-edges", "sdy-apply-sharding-constraints"
_ENGINES = ["native", "shardy"]


@pytest.mark.parametrize("engine", _ENGINES)
def test_a_graph_is_function_main(engine):
    sharding = parse_sharding('<@mesh, [{"p"}, {}]>', {"mesh": parse_mesh('<["p"=2]>')})

    def f(x):
        return mx.numpy.abs(sdy.ShardingConstraint(sharding)(mx.numpy.negative(x)))

    graph = mx.make_graph(f)(mx.Shape("f32", (8, 4)))
    changed = run_pass(_CONSTRAINTS, graph, engine=engine)
    assert list(changed.annotations.values.values()) == [sharding]
    assert [step.op.name for step in changed.instructions] == [
        step.op.name for step in graph.instructions
    ]
    assert graph.annotations is None


@pytest.mark.parametrize("engine", _ENGINES)
def test_several_passes_go_one_after_the_other(engine):
    text = written(_BARRIER)
    at_once = run_pass(f"{_EDGES},{_CONSTRAINTS}", text, engine=engine)
    after = run_pass(_CONSTRAINTS, run_pass(_EDGES, text, engine=engine), engine=engine)
    assert normal_form(at_once) == normal_form(after)
    assert "sdy.data_flow_edge" in at_once and "return %2" in normal_form(at_once)


@pytest.mark.parametrize("engine", _ENGINES)
def test_options_stand_beside_a_pass_or_in_its_text(engine):
    pipeline, text = "sdy-import-pipeline", written(_BARRIER)
    given = run_pass(pipeline, text, engine=engine, dedup_functions_fully=True)
    told = run_pass(f"{pipeline}{{dedup-functions-fully=true}}", text, engine=engine)
    assert normal_form(given) == normal_form(told)
    assert normal_form(given) != normal_form(run_pass(pipeline, text, engine=engine))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("sdy-add-data-flow-edge", {}, ["does not exist", "Did you mean sdy-add-data-flow-edges?"]),
        ("sdy-convert-global-to-local", {}, ['engine="shardy"', "There are sdy-import-pipeline"]),
        (_EDGES, {"fast": True}, ["no option 'fast'", "It has no options"]),
        (_CONSTRAINTS, {"specified": True}, ["no option 'specified'", "are specification."]),
        (f"{_CONSTRAINTS}{{a=b}}", {}, ["no option 'a'"]),
        (_CONSTRAINTS, {"specification": "no"}, ["cannot be 'no'", "The default is False"]),
        ("a pass", {}, ["is not a pass with options"]),
        (_EDGES, {"engine": "xla"}, ["engine 'xla' does not", "Pass native or shardy"]),
    ],
)
def test_words_that_are_none_are_told(name, options, said):
    with pytest.raises(mx.AttributeValueError) as caught:
        run_pass(name, written(_BARRIER), **options)
    assert all(each in str(caught.value) for each in said), str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "sdy-sharding-group-import",
            """(%a: t4, %b: t5) -> t4 {
  sdy.sharding_group %a group_id=5 : t4
  sdy.sharding_group %b group_id=5 : t5
  return %a : t4
}""",
            ["must have the same shape", "group 5: f32[4] and f32[5]", "<stablehlo>:3"],
        ),
        (
            "sdy-manual-axes-cleanup",
            """sdy.mesh @mesh = <["p"=2, "q"=4]>
func.func @main(%a: t4) -> t4 {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"q", "p"} () {
    %c = stablehlo.constant dense<1.0> : tensor<f32>
    sdy.return
  } : () -> ()
  return %a : t4
}""",
            ["the body is not empty", "manual axes: q, p", "<stablehlo>:3"],
        ),
        (
            "sdy-propagate-sharding-from-func-to-call",
            """sdy.mesh @mesh = <["p"=2, "q"=4]>
func.func @main(%x: t8) -> t8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p}]>] out_shardings=[<[{p}]>]
      manual_axes={"p"} (%a: t4) {
    %b = func.call @f(%a) : (t4) -> t4
    sdy.return %b : t4
  } : (t8) -> t8
  return %m : t8
}
func.func private @f(%x: t4) -> (t4 at [{p}]) {
  return %x : t4
}""",
            ['on axis "p" which is already bound by', "<stablehlo>:5"],
        ),
        (
            _EDGES,
            """(%x: t4) -> t4 {
  %b = stablehlo.optimization_barrier %x : t4
  %e = sdy.data_flow_edge %b : t4
  return %e : t4
}""",
            ["the value has one already", "<stablehlo>:3", "Add edges to a program only once"],
        ),
        (
            "symbol-dce",
            "(%x: t4 at [{z}]) -> t4 {\n  return %x : t4\n}",
            ['unknown axis name: "z"'],
        ),
        ("symbol-dce", "(%x: t4) -> t4 {\n  return %y : t4\n}", ["line 2", "undeclared"]),
    ],
)
@pytest.mark.parametrize("engine", _ENGINES)
def test_programs_are_refused_where_shardy_refuses_them(name, text, said, engine):
    with pytest.raises(mx.MinixlaError) as caught:
        run_pass(name, written(text), engine=engine)
    if engine == "native":
        assert all(each in str(caught.value) for each in said), str(caught.value)


def test_text_is_read_as_it_is_written():
    text = written(
        """(%x: t8x4, %i: tensor<i32>) -> (t8x4, t8x4) {
  %c = stablehlo.constant dense<1.0> : t8x4
  %y = "stablehlo.case"(%i) ({
    %a = stablehlo.add %x, %c : t8x4
    stablehlo.return %a : t8x4
  }, {
    stablehlo.return %c : t8x4
  }) : (tensor<i32>) -> t8x4
  return %y, %c : t8x4, t8x4
}
func.func private @unused(%x: t4) -> t4 attributes {sdy.original_func_name = "other"} {
  return %x : t4
}"""
    )
    assert normal_form(run_pass("sdy-manual-axes-cleanup", text)) == normal_form(text)
    assert "@unused" not in run_pass("symbol-dce", text)
