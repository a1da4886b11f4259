"""Attempts, records and the control store: the target as an execution sees it."""
