"""What the search for objects that outlive their function leaves to JAX."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.soak.lifetimes import collect, library_functions

X = np.ones(4, np.float32)

pytestmark = pytest.mark.full


@pytest.fixture(scope="module", autouse=True)
def whole_heap():
    """Count objects that other tests have left out of collections, too."""
    gc.unfreeze()
    yield
    gc.freeze()


def _growth(free):
    """Return the number of objects that 30 new closures of JAX leave."""

    def live_objects():
        for _ in range(30):
            array = jnp.asarray(X)
            jax.vmap(lambda x, array=array: x + array * array)(np.stack([X, X]))
        free()
        return len(gc.get_objects())

    live_objects()
    return -live_objects() + live_objects()


def test_jax_keeps_a_reference_to_each_trace():
    collect()  # a full cache drops an entry for each new one
    assert _growth(gc.collect) >= 20


def test_the_search_does_not_count_them():
    assert _growth(collect) < 10


def test_library_functions():
    _growth(gc.collect)
    own = jax.jit(jnp.copy)
    own(X)
    names = {each.__name__ for each in library_functions()}
    assert "multiply" in names
    assert not any(each is own for each in library_functions())
