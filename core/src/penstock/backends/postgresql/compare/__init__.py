"""Extents as conditions, and rows as checksums."""
