"""What comes and goes by the host: inputs, user code, feeds, sends and receives."""
