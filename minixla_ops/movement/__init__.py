"""Operations that create arrays or move elements: constants, broadcasts, reshapes, slices."""
