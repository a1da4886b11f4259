"""Copies big tables from Dagster."""
