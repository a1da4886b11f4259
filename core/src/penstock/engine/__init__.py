"""Runs: creating, executing, resuming, holding and reporting them."""
