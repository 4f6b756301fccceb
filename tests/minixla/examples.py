"""The calls that docstrings of the array library show, for tests of every function."""

from __future__ import annotations

import doctest
import inspect
from types import ModuleType
from typing import Any

import jax
import pytest

import minixla as mx

#: Where examples are taken from.
EXAMPLES: dict[str, ModuleType] = {
    "numpy": mx.numpy,
    "numpy.linalg": mx.numpy.linalg,
    "numpy.fft": mx.numpy.fft,
    "nn": mx.nn,
    "random": mx.random,
    "scipy.linalg": mx.scipy.linalg,
    "scipy.special": mx.scipy.special,
}


def first_call(
    module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of the first call of a function in its own example."""
    function, calls = getattr(module, name), []

    def recorded(*args: Any, **options: Any) -> Any:
        calls.append((args, options))
        return function(*args, **options)

    text = inspect.cleandoc(function.__doc__ or "")
    names = {"mx": mx, "np": mx.numpy, "jax": jax, "jnp": jax.numpy}
    with monkeypatch.context() as patched:
        patched.setattr(module, name, recorded)
        test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
        doctest.DocTestRunner().run(test, out=lambda text: None)
    return calls[0] if calls else None
