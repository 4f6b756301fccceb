"""Faults that several platforms share, by topic."""
