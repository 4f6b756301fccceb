"""Shardy's passes in their process: which there are, and what is said where they refuse."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from minixla.core.errors import AttributeValueError, ImportError_
from minixla.engine.shardy import PASSES, passes_of, shardy_pass, with_options

MESH = 'sdy.mesh @mesh = <["p"=2, "q"=4]>\n'
PROGRAM = (
    MESH
    + """func.func @main(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"p"}, {}]>}) -> tensor<8x4xf32> {
  %y = stablehlo.negate %x : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
"""
)


def _steps(pipeline):
    """The passes that MLIR prints, each with its nesting and options; pipelines are many."""
    inside = re.fullmatch(r"builtin\.module\((.*)\)", passes_of(pipeline))
    assert inside is not None
    found = re.findall(r"(func\.func\()?([\w-]+)(?:\{(.*?)\})?\)?(?:,|$)", inside[1])
    return [(bool(nested), name, options) for nested, name, options in found]


@pytest.mark.parametrize("name", [name for name in PASSES if name.startswith("sdy-")])
def test_the_table_says_what_jaxlib_has(name):
    steps, row = _steps(name), PASSES[name]
    if name.endswith("-pipeline"):
        assert len(steps) > 8
        for option, value in row.options.items():
            if value != "":
                assert _steps(with_options(name, {option: value})) == steps
            assert _steps(with_options(name, {option: "/nowhere" if value == "" else not value}))
        return
    ((nested, found, options),) = steps
    written = with_options("", row.options)
    assert (nested, found) == (row.is_of_functions, name)
    assert Counter(options.split()) == Counter(written.strip("{}").split())


def test_every_pass_runs():
    for name, row in PASSES.items():
        if name != "sdy-convert-global-to-local":  # of the program of all devices that is left
            text = shardy_pass(PROGRAM, name)
            assert "stablehlo.negate" in text or name == "sdy-propagation-pipeline", name
            options = {key: value for key, value in row.options.items() if value != ""}
            assert shardy_pass(PROGRAM, with_options(name, options)) == text, name


def test_passes_in_turn_go_over_what_the_last_one_left():
    text = shardy_pass(PROGRAM, "sdy-basic-propagate, sdy-close-shardings,sdy-drop-sharding-rules")
    assert '#sdy.sharding_per_value<[<@mesh, [{"p"}, {}]>]>' in text
    alone = shardy_pass(PROGRAM, "sdy-basic-propagate")
    assert '#sdy.sharding_per_value<[<@mesh, [{"p", ?}, {?}]>]>' in alone
    assert shardy_pass(alone, "sdy-close-shardings") == text


def test_options_reach_the_pass():
    options = {"keep_sharding_rules": True}
    text = shardy_pass(PROGRAM, with_options("sdy-basic-propagate", options))
    assert "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}>" in text
    assert "sharding_rule" not in shardy_pass(PROGRAM, "sdy-basic-propagate")


def test_the_former_name_of_a_pass():
    assert passes_of("sdy-constant-splitter") == passes_of("sdy-constant-or-scalar-splitter")


def test_no_pass_reads_and_prints():
    assert shardy_pass(PROGRAM, "").count('{sdy.sharding = #sdy.sharding<@mesh, [{"p"}, {}]>}') == 1
    assert shardy_pass("", "") == "module {\n}\n"


def test_places_are_those_of_the_text():
    text = shardy_pass(PROGRAM, "sdy-basic-propagate", with_places=True)
    assert 'loc("-":4:8)' in text
    assert "loc(" not in shardy_pass(text, "")


def test_functions_are_gone_over_without_threads():
    function = "func.func @f{}(%x: tensor<4xf32>) -> tensor<4xf32> {{ return %x : tensor<4xf32> }}"
    text = "\n".join(function.format(number) for number in range(50))
    assert shardy_pass(text, "sdy-constant-or-scalar-merger").count("func.func @f") == 50


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("sdy-foo", "unknown pass 'sdy-foo'.*The passes are sdy-import-pipeline, sdy-lift.*-dce"),
        ("sdy-basic-propagation", r"Did you mean sdy-basic-propagate\? The passes are"),
        ("sdy-basic-propagate{a=1}", "unknown option 'a'.*Its options are keep-sharding-rules, "),
        ("sdy-close-shardings{a=1}", "sdy-close-shardings: unknown option 'a'.*has no options"),
        ("sdy-basic-propagate{keep-sharding-rules}", "cannot be ''.*Pass one of true, false"),
        ("sdy-aggressive-propagate{propagation-strategy=no}", "basic-then-aggressive"),
        ("func.func(cse)", r"'func.func\(cse\)' is not a pass.*NAME{OPTION=VALUE ...}"),
        ("sdy-basic-propagate{", "'sdy-basic-propagate{' is not a pass with options"),
    ],
)
def test_a_pass_that_is_none(pipeline, message):
    with pytest.raises(AttributeValueError, match=f"(?s){message}"):
        shardy_pass(PROGRAM, pipeline)


def _group(name, number):
    return f"  sdy.sharding_group %{name} group_id={number} : tensor<8x4xf32>\n"


@pytest.mark.parametrize(
    ("text", "pipeline", "message"),
    [
        (PROGRAM + "}", "", "Shardy: line 6, column 2: expected operation name in quotes"),
        (
            PROGRAM.replace('{"p"}', '{"r"}'),
            "sdy-close-shardings",
            """sdy-close-shardings: line 2, column 1: 'func.func' op arg 0 - unknown axis name: "r".
  func.func @main\\(""",
        ),
        (
            PROGRAM.replace(
                "  return",
                _group("x", 1)
                + "  %z = stablehlo.constant dense<0.> : tensor<4xf32>\n"
                + "  sdy.sharding_group %z group_id=1 : tensor<4xf32>\n  return",
            ),
            "sdy-sharding-group-import",
            "line 7, column 3: ShardingGroupOps values must have the same shape for groupId: 1.*"
            "  sdy.sharding_group %z group_id=1 : tensor<4xf32>",
        ),
        (
            PROGRAM.replace("  return", _group("x", 0) + _group("x", 1) + "  return"),
            "sdy-basic-propagate",
            "Shardy crashes on the program: it gives up, or needs too much memory.\n"
            "  LLVM ERROR: Value can only map to one sharding group id after import",
        ),
        (
            PROGRAM.replace("@mesh, [", 'mesh<["p"=2]>, ['),
            "sdy-basic-propagate",
            "sdy-basic-propagate: Shardy crashes on the program: it reads memory that it does not",
        ),
        ("\0", "", "line 1, column 1: a null character"),
        ("\ud800", "", "line 1, column 1: half of a surrogate pair"),
    ],
)
def test_a_program_that_is_refused(text, pipeline, message):
    with pytest.raises(ImportError_, match=f"(?s){message}"):
        shardy_pass(text, pipeline)
    assert "stablehlo.negate" in shardy_pass(PROGRAM, "sdy-close-shardings")


def test_a_small_program_takes_milliseconds():
    shardy_pass(PROGRAM, "sdy-propagation-pipeline")
    start = time.perf_counter()
    for _ in range(20):
        shardy_pass(PROGRAM, "sdy-propagation-pipeline")
    assert (time.perf_counter() - start) / 20 < 0.05  # two, where nothing else runs


def test_threads_take_turns():
    texts = [PROGRAM.replace("8x4", f"{size}x4") for size in range(2, 12, 2)]
    found = {}

    def run(text):
        found[text] = shardy_pass(text, "sdy-basic-propagate")

    threads = [threading.Thread(target=run, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(text.split("tensor")[1][:4] in found[text] for text in texts)


def test_the_page_lists_every_pass():
    rows = []
    for name, row in PASSES.items():
        over = "functions" if row.is_of_functions else "the module"
        options = with_options("", row.options).strip("{}").split()
        listed = ", ".join(f"`{each.removesuffix('=')}`" for each in options)
        rows.append(f"| `{name}` | {over} | {listed} | {row.meaning} |")
    page = (Path(__file__).parents[3] / "docs" / "shardy_passes.md").read_text()
    assert "\n".join(rows) in page
