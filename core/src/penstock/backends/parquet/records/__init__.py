"""Runs and commit records as documents beside the data."""
