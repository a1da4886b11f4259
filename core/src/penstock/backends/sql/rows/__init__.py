"""Which rows: bounds, conditions, checksums."""
