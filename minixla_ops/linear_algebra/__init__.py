"""Cholesky, triangular systems, LAPACK's calls and Fourier transforms."""
