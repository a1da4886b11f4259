"""Figures of a run: where its time went, and what to do about it."""
