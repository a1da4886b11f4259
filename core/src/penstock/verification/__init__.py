"""Verification that the target holds the rows of the source."""
