"""Random calls of every builder: a program that MLIR takes, or an error of our own."""

import jax
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import minixla_ops as ops
from minixla.core.errors import MinixlaError
from tests.oracles.verifier import verify
from tests.programs.calls import attempts

# It would keep every name.
BUILDERS = [name for name in ops.__all__ if name != "register_custom_call"]


@pytest.fixture(scope="module", autouse=True)
def all_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.mark.drawn
@pytest.mark.parametrize("name", BUILDERS)
def test_calls(name):
    @settings(
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
