"""Displays and reports of runs for people."""
