"""Faults of XLA:GPU (jax 0.10.2, CUDA) and the replacements, by topic."""
