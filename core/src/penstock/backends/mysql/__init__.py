"""MySQL and MariaDB as source and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.backends.api.installation import check_installed
from penstock.backends.mysql.capabilities import SOURCE, TARGET
from penstock.backends.mysql.location import URLS, is_private, through
from penstock.backends.sql.backend import ModularBackend

check_installed("pymysql", "pyarrow")


class _Backend(ModularBackend):
    private_parameter = "ssl_mode=verify_identity"

    def is_private(self, url: str, _environ: Mapping[str, str]) -> bool:
        return is_private(url)

    def through(
        self, url: str, _environ: Mapping[str, str], tunnel: Callable[[str, int], str], flag: str
    ) -> str:
        return through(url, tunnel, flag)


def _backend(kind: str) -> ModularBackend:
    return _Backend(
        __name__,
        URLS,
        SOURCE,
        TARGET,
        kinds=(kind,),
        rewrites="ALTER TABLE or TRUNCATE",
        snapshot_burden="kept old versions of rows on the source",
    )


backend = _backend("mysql")
mariadb = _backend("mariadb")
"""The objects that the entry points refer to."""
