"""A database's definitions as pg_dump writes them, independent of our own catalog queries."""

from __future__ import annotations

import re
import subprocess

from penstock_testkit import PostgresServer

# Words that differ between dumps.
_NOISE = re.compile(r"^(--.*|\\(un)?restrict .*|SET .*|SELECT pg_catalog\.set_config.*|)$")


def definitions(url: str, *tables: str) -> list[str]:
    """Return every definition except those of the control tables.

    Args:
        tables: restricts the result to these and the objects that belong to them.
    """
    chosen = [f"--table={table}" for table in tables]
    dumped = subprocess.run(
        [
            str(PostgresServer().bin("pg_dump")),
            *("--schema-only", "--exclude-schema=penstock", *chosen, url),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in dumped.stdout.splitlines() if not _NOISE.match(line)]


def carry(section: str, source: str, target: str) -> None:
    """Restore a section of one database's dump into another database."""
    server = PostgresServer()
    dumped = subprocess.run(
        [str(server.bin("pg_dump")), f"--section={section}", source],
        capture_output=True,
        check=True,
    )
    subprocess.run(
        [str(server.bin("psql")), "--quiet", "--set=ON_ERROR_STOP=1", target],
        # Servers before PostgreSQL 17 lack the setting.
        input=dumped.stdout.replace(b"SET transaction_timeout = 0;\n", b""),
        stdout=subprocess.DEVNULL,
        check=True,
    )
