"""Triggers: work that runs in the triggerer."""
