"""Element-wise operations: arithmetic, comparisons, choices, functions, conversions."""
