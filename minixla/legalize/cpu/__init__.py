"""Faults of XLA:CPU (jaxlib 0.10.2) and their replacements, by topic."""
