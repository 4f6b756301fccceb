"""Sizes known only at run time, within bounds."""
