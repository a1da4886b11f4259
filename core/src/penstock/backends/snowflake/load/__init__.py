"""Stages, and the table that a run loads."""
