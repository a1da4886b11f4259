"""Rows on the wire, in both directions."""
