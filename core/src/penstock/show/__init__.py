"""Displays and reports of runs."""
