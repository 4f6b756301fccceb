"""Random bits and samples."""
