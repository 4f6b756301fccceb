"""Entries of the key of compiled programs besides JAX's settings.

Both entries are created when the engine is loaded: a later entry changes the key, and JAX
compiles every function again.
"""

import jax

from minixla.legalize import registry

#: Context manager that sets the mesh for specs without a mesh.
mesh_key = jax.make_user_context(default_value=None)
# The legalization rules that are switched off.
registry.key_of_programs[0] = jax.make_user_context(default_value=frozenset())
