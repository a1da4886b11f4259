"""Selecting and comparing rows: bounds, conditions, checksums."""
