"""The pause of the garbage collector."""

import gc

import pytest

from minixla.collecting import collection_paused


def test_the_collector_pauses_and_continues():
    frozen = gc.get_freeze_count()
    with pytest.raises(KeyError), collection_paused(imports=True):
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_frozen_objects_stay_frozen():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with collection_paused(imports=True):
            pass
        assert gc.get_freeze_count() == count > 0
    finally:
        gc.unfreeze()
