"""The control store of a server, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.loads.merged_nights import MergedNights
from penstock.backends.sql.server.load_hooks import ServerLoadHooks
from penstock.backends.sql.server.presence import ServerPresence
from penstock.model.tables import TableRef


def server_control(
    loads: ServerLoadHooks[Any],
    presence: ServerPresence[Any],
    dialect: Callable[[TableRef, Sequence[str]], CatalogDialect] | None = None,
) -> RecordedRuns:
    """Return the control store of a server.

    Args:
        loads: what the server knows about the loaded tables.
        presence: which runs are executed.
        dialect: see `MergedNights`.
    """
    ledger = loads.ledger
    nights = MergedNights(ledger.store, loads, loads.storage, counts_rows=False, dialect=dialect)
    return RecordedRuns(ledger, loads, presence, nights)
