"""One element at a time: arithmetic, comparisons, choices, functions, conversions."""
