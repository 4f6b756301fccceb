"""Programs inside operations: calls, computations of scalars, and how NumPy evaluates them."""
