"""Attempts: their stages, their files, and who else is at work."""
