"""Our passes agree with Shardy on axes of size one, unreduced axes, maximal meshes and tokens."""

from __future__ import annotations

import pytest

from minixla.sharding import run_pass
from tests.soak import shardy

# A manual computation whose operand is unreduced along parts of its manual axis.
_DIFFERENT = {51}


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    text = shardy.program(seed)
    wrong = [found for name in shardy.PASSES if (found := shardy.Case(name, text).run())]
    assert not wrong


@pytest.mark.full
def test_more_random_programs():
    for seed in range(4, 64):
        if seed not in _DIFFERENT:
            test_random_programs(seed)


def test_cases_are_shrunk(monkeypatch):
    """A planted fault is found, and its program is shrunk."""
    original = run_pass

    def planted(name, text):
        return original(name, text).replace("stablehlo.tanh", "stablehlo.negate")

    monkeypatch.setattr(shardy, "run_pass", planted)
    text = """sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<4xf32> {
  %0 = stablehlo.abs %x : tensor<4xf32>
  %1 = stablehlo.tanh %x : tensor<4xf32>
  %2 = stablehlo.abs %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
    case = shardy.Case("sdy-close-shardings", text)
    assert "Shardy: " in case.run()
    shrunk = case.shrunk()
    assert "Shardy: " in shrunk.run()
    assert "abs" not in shrunk.text and "tanh" in shrunk.text


def test_cases_go_on():
    found = shardy.cases(3)
    names = [next(found).name for _ in range(len(shardy.PASSES) + 1)]
    assert names == [*shardy.PASSES, shardy.PASSES[0]]


#: Programs with one feature, the pass, and parts of its result.
_FACTS = {
    "a stated sharding stays": (
        "sdy-basic-propagate",
        """sdy.mesh @m = <["a"=1, "b"=2, "c"=1]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", "b", "c"}]>})
    -> tensor<2x1x4xf32> {
  %0 = stablehlo.reshape %x : (tensor<8xf32>) -> tensor<2x1x4xf32>
  return %0 : tensor<2x1x4xf32>
}""",
        ['[{"a", "b", "c"}]', '[{"a", "b", "c", ?}, {?}, {?}]'],
    ),
    "an axis of size one in a reader": (
        "sdy-aggressive-propagate",
        """sdy.mesh @m = <["a"=1, "b"=2]>
func.func @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {"b"}]>})
    -> tensor<32xf32> {
  %0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}""",
        ['[{"a"}, {"b"}]'],
    ),
    "a call without results on one device": (
        "sdy-close-shardings",
        """sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  stablehlo.custom_call @note(%x) {has_side_effect = true,
    sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<8xf32>) -> ()
  return %x : tensor<8xf32>
}""",
        ["sdy.sharding_per_value<[<@one, []>]>"],
    ),
    "no edge on a token": (
        "sdy-add-func-data-flow-edges",
        """func.func private @f(%t: !stablehlo.token, %x: tensor<8xf32>)
    -> (!stablehlo.token, tensor<8xf32>) { return %t, %x : !stablehlo.token, tensor<8xf32> }
func.func @main(%t: !stablehlo.token, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0:2 = call @f(%t, %x) : (!stablehlo.token, tensor<8xf32>) -> (!stablehlo.token, tensor<8xf32>)
  return %0#1 : tensor<8xf32>
}""",
        ["func_data_flow_edge %arg1", "func_data_flow_edge %1"],
    ),
    "unreduced axes are summed up where they are read": (
        "sdy-insert-explicit-reshards",
        """sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"b"}], unreduced={"a"}>})
    -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}""",
        ['sdy.all_reduce {"a"} %arg0 out_sharding=<@m, [{"b"}]>'],
    ),
    "a sharding of a loop with side effects": (
        "sdy-close-shardings",
        """sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
  %0:2 = stablehlo.while(%y = %x, %i = %n) : tensor<8xf32>, tensor<i32>
    attributes {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>, <@m, []>]>}
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    stablehlo.custom_call @note(%y) {has_side_effect = true} : (tensor<8xf32>) -> ()
    stablehlo.return %y, %i : tensor<8xf32>, tensor<i32>
  }
  return %0#0 : tensor<8xf32>
}""",
        ['[<@m, []>, <@m, [{"a"}]>, <@m, []>'],
    ),
    "names to be escaped": (
        "sdy-close-shardings",
        """sdy.mesh @"m n" = <["a\\22b"=2, "\\C3\\A9"=2]>
func.func @"f g"(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@"m n", [{"a\\22b", ?}]>})
    -> tensor<8xf32> { return %x : tensor<8xf32> }""",
        ['@"m n"', '@"f g"', 'a\\"b'],
    ),
}


@pytest.mark.parametrize("name, text, parts", _FACTS.values(), ids=_FACTS)
def test_facts(name, text, parts):
    left = run_pass(name, text)
    assert not [part for part in parts if part not in left]
    assert shardy.normal_form(run_pass("symbol-dce", left))


_U = '{sdy.sharding = #sdy.sharding<@m, [{"b"}], unreduced={"a"}>}'
_B = 'sdy.sharding = #sdy.sharding_per_value<[<@m, [{"b"}]>]>'
#: Readers of an unreduced argument: Shardy reduces it in front of the reader, or behind the value
#: if the reader has blocks or is a call. It reshards concatenations of reduced operands.
_READERS = {
    "call": "%1 = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>",
    "negate": "%1 = stablehlo.negate %x : tensor<4xf32>",
    "while": """%1:2 = stablehlo.while(%p = %x, %i = %n) : tensor<4xf32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    stablehlo.return %p, %i : tensor<4xf32>, tensor<i32>
  }""",
    "manual_computation": """%1 = sdy.manual_computation(%x) in_shardings=[<@m, [{"b"}]>]
      out_shardings=[<@m, [{"b"}]>] manual_axes={"b"} (%p: tensor<2xf32>) {
    sdy.return %p : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>""",
    "concatenate": f"""%1 = stablehlo.concatenate %x, %x, dim = 0 {{{_B}}} :
      (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>""",
}


@pytest.mark.parametrize("reader", _READERS)
def test_where_unreduced_operands_are_reduced(reader):
    text = f"""sdy.mesh @m = <["a"=2, "b"=2]>
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
  return %x : tensor<4xf32>
}}
func.func @main(%x: tensor<4xf32> {_U}, %y: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {{
  %0 = stablehlo.negate %y : tensor<4xf32>
  {_READERS[reader]}
  return %0 : tensor<4xf32>
}}"""
    assert shardy.Case("sdy-insert-explicit-reshards", text).run() is None


#: Concatenations of %y, of %b, a barrier of %y with another sharding, and of the sharded %z.
_CONCATENATIONS = {
    "barriers with the sharding of the result": f"%b, %b, dim = 0 {{{_B}}}",
    "a value and its barrier": f"%y, %b, dim = 0 {{{_B}}}",
    "an unreduced result": f'%z, %z, dim = 0 {{{_B[:-3]}, unreduced={{"a"}}>]>}}',
}


@pytest.mark.parametrize("operands", _CONCATENATIONS.values(), ids=_CONCATENATIONS)
def test_concatenations_of_barriers_and_unreduced_values(operands):
    text = f"""sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%y: tensor<4xf32>,
    %z: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"b"}}]>}}) -> tensor<8xf32> {{
  %b = sdy.propagation_barrier %y allowed_direction=NONE {{{_B}}} : tensor<4xf32>
  %0 = stablehlo.concatenate {operands} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}}"""
    assert shardy.Case("sdy-insert-explicit-reshards", text).run() is None


def test_a_value_on_one_device_is_not_moved_for_a_call():
    text = """sdy.mesh @one = <[], device_ids=[1]>
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @on_one(%x) {has_side_effect = true,
    sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}"""
    assert shardy.Case("sdy-insert-explicit-reshards", text).run() is None
