"""Instructions that XLA's passes create: they are read, printed and run, but not built."""
