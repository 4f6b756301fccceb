"""A function written in plain NumPy, differentiated and batched by minixla unchanged."""

import numpy as np

import minixla as mx


def potential_energy(positions):
    """Lennard-Jones energy of particles at `positions` [n, 3]; knows nothing of minixla."""
    i, j = np.triu_indices(len(positions), k=1)
    distance = np.sqrt(np.sum((positions[i] - positions[j]) ** 2, axis=-1))
    return np.sum(4 * (distance**-12 - distance**-6))


positions = np.random.default_rng(0).uniform(0, 3, (6, 3)).astype(np.float32)
forces = -mx.grad(potential_energy)(positions)
print("energy with NumPy   ", potential_energy(positions))
print("energy with XLA     ", mx.jit(potential_energy)(positions))
print("forces on the first particles\n", np.asarray(forces[:2]))

moved = positions.copy()
moved[0, 0] += 1e-3
slope = (potential_energy(moved) - potential_energy(positions)) / 1e-3
print(f"force by difference {-slope:.4f}, by grad {float(forces[0, 0]):.4f}")

several = positions + np.linspace(0, 0.1, 4, dtype=np.float32)[:, None, None]
print("energies of a batch ", mx.vmap(potential_energy)(several))
