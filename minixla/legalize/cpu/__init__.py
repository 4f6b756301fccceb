"""Faults of XLA:CPU (jaxlib 0.10.2) and what is written instead, by topic."""

from minixla.legalize.cpu import integers

__all__ = ["integers"]
