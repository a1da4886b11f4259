"""Rows on the wire, both ways."""
