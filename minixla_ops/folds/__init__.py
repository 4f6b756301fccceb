"""Dimensions and windows folded: reductions, pooling, and what batch normalisation sums."""
