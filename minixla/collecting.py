"""Python's cyclic garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector inside a `with` block.

    Use it where all new objects live on: repeated scans would take most of the time. At the end,
    they join the oldest generation unscanned.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():  # else unfreezing would include the user's objects
                gc.freeze()
                gc.unfreeze()
            gc.enable()
