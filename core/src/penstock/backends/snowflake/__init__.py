"""Snowflake as source and target."""

from __future__ import annotations

from penstock.backends.snowflake.backend import SnowflakeBackend

backend = SnowflakeBackend()
"""The object that the entry point names."""
