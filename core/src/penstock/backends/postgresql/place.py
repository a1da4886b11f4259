"""Where a URL leads: the server and the database, and nothing else of it."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.model import Place

# What assets and lineage call it, and the port where a URL names none.
SCHEME = "postgres"
DEFAULT_PORT = 5432
_HOST = re.compile(r"\[(?P<bracketed>[^]]*)\](:(?P<after>\d*))?|(?P<host>[^:]*)(:(?P<port>\d*))?")


def place_of(url: str) -> Place:
    """Of several hosts the first is told; a socket is on `localhost`; where a URL has only the name
    of a service (`pg_service.conf`), that stands for its host.

    Parameters:
        url: with its secrets; none of them is in what is returned.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    user, _, place = parts.netloc.rpartition("@")
    found = _HOST.match(place.split(",")[0])
    assert found is not None
    host = unquote(found["bracketed"] or found["host"] or "")
    host = host or query.get("host", "").split(",")[0] or query.get("hostaddr", "").split(",")[0]
    if not host or host.startswith(("/", "@")):
        host = query.get("service", "localhost") if not host else "localhost"
    port = found["after"] or found["port"] or query.get("port", "").split(",")[0]
    name = unquote(user.partition(":")[0]) or query.get("user", "")
    database = unquote(parts.path.removeprefix("/")) or query.get("dbname", "")
    return Place(
        SCHEME,
        host.lower(),
        int(port) if port else DEFAULT_PORT,
        database or name or query.get("service", "postgres"),
    )
