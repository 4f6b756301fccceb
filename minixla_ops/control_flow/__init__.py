"""Branches, loops, scans and maps, with their derivative and batching rules."""
