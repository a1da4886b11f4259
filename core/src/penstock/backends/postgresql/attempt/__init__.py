"""Runs and attempts that work on the same table."""
