"""Factors, eigenvalues and singular values of matrices, linear systems, Fourier transforms."""
