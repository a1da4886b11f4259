"""Runs: made, executed, resumed, held, reported."""
