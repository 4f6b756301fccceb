"""What processes tell each other: groups, reductions, permutations, joins."""
