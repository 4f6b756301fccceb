"""Operations that run programs: calls, computations of scalars, and their NumPy evaluation."""
