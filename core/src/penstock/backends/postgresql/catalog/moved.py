"""Whether rows may have gone from one block to another since a snapshot was taken."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg import sql

from penstock.backends.postgresql.compare.conditions import select
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import statement
from penstock.model.extents import Extent
from penstock.model.snapshots import SourceState
from penstock.model.tables import Relation

_OLDEST = re.compile(r"(\d+):\d+:")


def may_have_moved(
    connection: Connection,
    relation: Relation,
    where: str | None,
    extents: Sequence[tuple[Extent, int | None]],
    since: SourceState,
) -> bool:
    """See `SourceCatalog.may_have_moved`."""
    # A transaction of before the oldest that was open then is older than the snapshot for sure.
    found = _OLDEST.match(since.moment)
    if found is None:
        return True
    for extent, rows in extents:
        query = statement("written_since").format(
            rows=select(relation, extent, where, sql.SQL("xmin::text::bigint AS xmin")),
            since=sql.Literal(int(found[1]) % (1 << 32)),
        )
        with planning("source", f"{relation}"):
            counted = connection.execute(query).fetchone()
        assert counted is not None
        total, written = counted
        if written or (rows is not None and total != rows):
            return True
    return False
