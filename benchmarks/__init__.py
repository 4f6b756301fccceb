"""Benchmarks against JAX, in one process and interleaved: `python -m benchmarks`."""
