"""What surrounds programs: the table of operations and the command line."""
