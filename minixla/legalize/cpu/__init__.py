"""Faults of XLA:CPU (jaxlib 0.10.2) and the replacements, by topic."""
