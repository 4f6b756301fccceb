"""What comes and goes by the host: inputs, code of users and of LAPACK, feeds, sends, receives."""
