"""Matrix factorizations, eigenvalues, singular values, linear systems, Fourier transforms."""
