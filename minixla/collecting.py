"""Python's cyclic garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused(*, imports: bool = False) -> Iterator[None]:
    """Pause the garbage collector inside a `with` block.

    Use it where all new objects live until the end: repeated scans would take most of the time.

    Args:
        imports: whether the new objects are modules. They then join the oldest generation at the
            end, without the scan that would follow.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            # Unfreezing would include objects that the user has frozen; counting them takes long.
            if imports and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
