"""Databases, one folder each, found by the scheme of a URL."""
