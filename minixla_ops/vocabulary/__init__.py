"""What rules of every family are written in: splats, shapes, batch dimensions, casts, tuples."""
