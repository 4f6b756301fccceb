"""Differentiate, compile and batch a function written in plain NumPy."""

import drawing
import numpy as np

import minixla as mx


def potential_energy(positions):
    """Lennard-Jones energy of particles at `positions` [n, 3]."""
    i, j = np.triu_indices(len(positions), k=1)
    distance = np.sqrt(np.sum((positions[i] - positions[j]) ** 2, axis=-1))
    return np.sum(4 * (distance**-12 - distance**-6))


# Eight particles at the corners of a cube, a little out of place.
corners = np.stack(np.meshgrid(*[[0.0, 1.1]] * 3), -1).reshape(8, 3)
positions = (corners + np.random.default_rng(0).normal(0, 0.02, (8, 3))).astype(np.float32)
print(f"energy by NumPy      {potential_energy(positions):.5f}")
print(f"energy by XLA        {mx.jit(potential_energy)(positions):.5f}")

# The force is minus the gradient. Compare it with a difference in double precision, in NumPy:
force = -mx.jit(mx.grad(potential_energy))(positions)[0, 0]
above, below = positions.astype(np.float64), positions.astype(np.float64)
above[0, 0] += 1e-6
below[0, 0] -= 1e-6
slope = (potential_energy(above) - potential_energy(below)) / 2e-6
print(f"force by mx.grad     {force:.5f}")
print(f"force by difference  {-slope:.5f}")

# The cube in four sizes, all at once.
cubes = positions * np.linspace(0.95, 1.25, 4, dtype=np.float32)[:, None, None]
print("energies of a batch ", mx.vmap(potential_energy)(cubes))
curvature = mx.jvp(mx.grad(potential_energy), (positions,), (corners.astype(np.float32),))[1]
print("stiffness to growth ", np.sum(curvature * corners))
sizes = np.linspace(0.92, 1.6, 60, dtype=np.float32)
energies = mx.vmap(potential_energy)(positions * sizes[:, None, None])
drawing.curves("plain_numpy", {"energy of the cube": (sizes, energies)}, "size", "energy")
