"""Measurements of a copy of a sample: the degree and the options that make it fast."""
