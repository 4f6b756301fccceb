"""Faults of XLA:GPU (jax 0.10.2, CUDA) and their replacements, by topic."""
