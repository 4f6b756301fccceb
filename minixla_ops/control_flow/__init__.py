"""Branches, loops, scans and maps, with derivatives and batches that are made of them."""
