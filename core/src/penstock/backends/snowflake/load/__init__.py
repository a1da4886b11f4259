"""Stages, and signs of life of active processes."""
