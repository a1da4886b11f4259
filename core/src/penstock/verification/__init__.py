"""Whether the target holds what the source has."""
