"""Stages, and the signs of life of those who are at work."""
