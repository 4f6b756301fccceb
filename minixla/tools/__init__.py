"""The table of operations, the command line, cross-checks, costs and visualization."""
