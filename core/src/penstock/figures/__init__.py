"""Figures of a run: where its time went, and how to speed it up."""
