"""Random calls of every builder: a program that MLIR takes, or an error of our own.

Operations must work without `minixla.numpy`, which adds the methods of arrays to traced values.
"""

import jax
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import minixla_ops as ops
from minixla.core.errors import MinixlaError
from minixla.core.tracer import Tracer
from minixla.numpy import array_methods
from tests.oracles.verifier import verify
from tests.programs.calls import attempts
from tests.selection import IS_LONG

# It would keep every name.
BUILDERS = [name for name in ops.__all__ if name != "register_custom_call"]


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def no_array_methods():
    class Methods:
        pass

    own = {*vars(Methods)}
    array_methods.install_on(Methods)
    methods = {name: vars(Tracer)[name] for name in vars(Methods).keys() - own}
    for name in methods:
        delattr(Tracer, name)
    yield
    for name, method in methods.items():
        setattr(Tracer, name, method)


@pytest.mark.drawn
@pytest.mark.parametrize("name", BUILDERS)
def test_calls(name):
    @settings(
        max_examples=settings().max_examples if IS_LONG else 10,
        suppress_health_check=list(HealthCheck),
        phases=[phase for phase in Phase if phase is not Phase.explain],
    )
    @given(attempts(name))
    def check(attempt):
        if attempt.text is not None:
            verify(attempt.text)
        if attempt.error is not None and not isinstance(attempt.error, MinixlaError):
            raise AssertionError(f"{attempt.call} raises no error of ours") from attempt.error

    check()
