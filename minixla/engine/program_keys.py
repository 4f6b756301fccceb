"""What the key of compiled programs holds besides JAX's settings.

Both entries are made when the engine is loaded: an entry that is added later changes the key, and
JAX compiles every function once more.
"""

import jax

from minixla.legalize import registry

#: Context manager: the mesh that specs without a mesh refer to.
mesh_key = jax.make_user_context(default_value=None)
# Which rules of legalization are switched off.
registry.key_of_programs[0] = jax.make_user_context(default_value=frozenset())
