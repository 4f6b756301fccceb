"""Access to elements at computed positions: gathers, scatters, dynamic slices, sorting."""
