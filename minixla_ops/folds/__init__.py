"""Reductions, windowed reductions (pooling) and batch normalization."""
