"""PostgreSQL as source and target."""

from __future__ import annotations

from penstock.backends.postgresql.backend import PostgresBackend

backend = PostgresBackend()
