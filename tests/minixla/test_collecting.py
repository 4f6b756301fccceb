"""The pause of the garbage collector."""

import gc

import pytest

from minixla.collecting import collection_paused


def is_frozen(container):
    """Whether the collector leaves a container out; frozen objects are not among those it lists."""
    return all(thing is not container for thing in gc.get_objects())


def test_the_collector_pauses_and_continues():
    made: list[list[int]] = []
    with pytest.raises(KeyError), collection_paused(imports=True):
        made.append([])
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    assert not is_frozen(made[0])


def test_frozen_objects_stay_frozen():
    had_frozen = gc.get_freeze_count() > 0
    container = []
    gc.freeze()
    try:
        with collection_paused(imports=True):
            pass
        assert is_frozen(container)
    finally:
        if not had_frozen:  # the test runner may have frozen its own
            gc.unfreeze()
