"""The commands of the command line, a module each; none imports JAX before it runs."""
