"""The engines that run passes over texts, as one function each."""

from __future__ import annotations

from minixla.engine.shardy import steps_of


def natively(text, passes, **options):
    """A program after passes of our own; see `shardy_pass`."""
    from minixla.sharding import run_pass

    for name, given in steps_of(passes):
        given = {key.replace("-", "_"): value for key, value in given.items()}
        text = run_pass(name, text, engine="native", **given, **options)
    return text


def natively_by_specification(text, passes):
    """The same, as the specification says where Shardy has changed since."""
    return natively(text, passes, specification=True)
