"""Benchmarks of copies: see README.md."""
