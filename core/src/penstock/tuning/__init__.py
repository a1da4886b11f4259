"""Measurements of a copy over a sample: which degree, and which options, make it fast."""
