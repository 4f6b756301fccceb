"""Communication with the host: inputs, user code, LAPACK calls, feeds, sends, receives."""
