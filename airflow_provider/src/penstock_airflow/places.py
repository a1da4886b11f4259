"""Where a URL leads, told without its secrets: how assets and lineage name a database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

# What others call it, and the port where a URL names none.
_SCHEMES = {"postgresql": ("postgres", 5432), "postgres": ("postgres", 5432)}
_HOST = re.compile(r"\[(?P<bracketed>[^]]*)\](:(?P<after>\d*))?|(?P<host>[^:]*)(:(?P<port>\d*))?")


@dataclass(frozen=True, slots=True)
class Place:
    scheme: str
    host: str
    port: int | None
    database: str

    @property
    def authority(self) -> str:
        """`host:port`, as a URL has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def namespace(self) -> str:
        """What lineage calls the server."""
        return f"{self.scheme}://{self.authority}"


def place_of(url: str) -> Place:
    """Of several hosts the first is told; a socket is on `localhost`; where a URL has only the name
    of a service (`pg_service.conf`), that stands for its host.

    Parameters:
        url: with its secrets; none of them is in what is returned.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    user, _, place = parts.netloc.rpartition("@")
    scheme, default_port = _SCHEMES.get(parts.scheme, (parts.scheme, None))
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
        scheme,
        host.lower(),
        int(port) if port else default_port,
        database or name or query.get("service", "postgres"),
    )
