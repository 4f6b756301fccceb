"""Faults of several platforms, by topic."""
