"""Communication between processes: groups, reductions, permutations, joins."""
