"""Instructions that XLA's passes make: read, printed and run, never built."""
