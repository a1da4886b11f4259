"""Runs and attempts that meet in one table."""
