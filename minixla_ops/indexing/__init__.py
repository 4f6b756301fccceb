"""Elements by computed places: gathers, scatters, dynamic slices, sorting."""
