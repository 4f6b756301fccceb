"""How functions are made that are rows of tables."""

import inspect
import pickle

import numpy as np
import pytest

import minixla.numpy as mnp

X = np.arange(6, dtype=np.float32).reshape(2, 3)
#: A row of each family, and parameters that only it has.
ROWS = {
    "prod": "promote_integers",
    "nansum": "initial",
    "nanmin": "where",
    "any": "keepdims",
    "nanargmax": "axis",
    "nancumprod": "dtype",
    "cummax": "axis",
    "cumulative_sum": "include_initial",
    "std": "correction",
    "nanvar": "ddof",
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_families_are_functions_like_others(name: str) -> None:
    function = getattr(mnp, name)
    parameters = inspect.signature(function).parameters
    assert function.__name__ == name and ROWS[name] in parameters
    summary, *parts = inspect.getdoc(function).split("\n\n")
    assert summary.endswith(".")
    (arguments,) = [part for part in parts if part.startswith("Args:")]
    rows = [line for line in arguments.splitlines()[1:] if line[4] != " "]
    described = [row.split(":")[0].strip() for row in rows]
    assert described == list(parameters)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", ROWS)
def test_wrong_calls_are_refused_by_name(name: str) -> None:
    function = getattr(mnp, name)
    with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required .*argument: '[ax]'"):
        function()
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'axes'"):
        function(X, axes=0)
    with pytest.raises(ValueError, match=rf"^{name}: axis 2 is out of bounds"):
        function(X, axis=2)
