"""Shardings of HLO programs: refused where they tell devices apart, unless they are given up."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def program(sharding: str, of_parameter: str = "", header: str = "") -> str:
    return f"""HloModule m{header}

ENTRY main {{
  x = f32[2,3] parameter(0){of_parameter}
  ROOT r = f32[2,3] custom-call(x), custom_call_target="Sharding"{sharding}
}}
"""


SHARDED = {
    "instruction": (program(", sharding={devices=[2,1]<=[2]}"), "line 5, column .*: custom-call"),
    "parameter": (program("", ", sharding={devices=[2,1]0,1}"), "line 4, column .*: parameter"),
    "another device": (program(", sharding={maximal device=1}"), "line 5"),
    "partitions": (program(", sharding={replicated}", header=", num_partitions=2"), "line 5"),
}


@pytest.mark.parametrize("name", SHARDED)
def test_what_tells_devices_apart_is_refused_or_dropped(name):
    text, place = SHARDED[name]
    message = rf"{place}.*sharding=.*would be lost.*\n(.*\n)*.*shardings=\"drop\""
    with pytest.raises(mx.ImportError_, match=message):
        mx.import_hlo(text)
    np.testing.assert_array_equal(mx.import_hlo(text, shardings="drop")(X), X)


@pytest.mark.parametrize("sharding", ["", "replicated", "{replicated}", "maximal device=0"])
def test_what_says_nothing_of_devices_is_read(sharding):
    text = program(f", sharding={{{sharding}}}", header=", num_partitions=1")
    np.testing.assert_array_equal(mx.import_hlo(text)(X), X)


def test_there_are_two_ways_to_treat_shardings():
    with pytest.raises(mx.AttributeValueError, match=r'import_hlo: .*\n.*keep.*\n(.*\n)*.*"drop"'):
        mx.import_hlo(program(""), shardings="keep")
