"""Arrays made, and elements moved: constants, broadcasts, reshapes, slices, padding, joins."""
