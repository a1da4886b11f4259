"""Bounds of keys."""
