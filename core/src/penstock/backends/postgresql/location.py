"""Where a URL leads: the server and the database, and nothing else of it."""

from __future__ import annotations

from penstock.backends.postgresql.connection import parts_of
from penstock.model.tables import Place

# What assets and lineage call it, and the port where a URL names none.
SCHEME = "postgres"
DEFAULT_PORT = 5432


def place_of(url: str) -> Place:
    """Of several hosts the first is told; a socket is on `localhost`; where a URL has only the name
    of a service (`pg_service.conf`), that stands for its host.

    Parameters:
        url: with its secrets; none of them is in what is returned.

    Raises:
        UsageError: malformed.
    """
    parts = parts_of(url, "connection")

    def first(name: str) -> str:
        return str(parts.get(name) or "").split(",")[0]

    service = parts.get("service")
    host = first("host") or first("hostaddr")
    if not host or host.startswith(("/", "@")):
        host = "localhost" if host else service or "localhost"
    return Place(
        SCHEME,
        host.lower(),
        int(first("port") or DEFAULT_PORT),
        parts.get("dbname") or parts.get("user") or service or "postgres",
    )
