"""Faults of XLA:TPU (libtpu for jax 0.10.2) and their replacements, by topic."""
