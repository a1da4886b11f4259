"""MySQL and MariaDB as source and target."""

from __future__ import annotations

from penstock.backends.mysql.backend import MySqlBackend

backend = MySqlBackend()
"""The object that the entry points name."""
