"""Sums of products: dot products and convolutions."""
