"""The capabilities of PostgreSQL as source and target."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    INSERTING,
    SOURCE_OPTIONS,
    TRANSACTIONAL,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW, CSV, LINES, ROWS
from penstock.backends.postgresql.session.statements import FORMATS
from penstock.spec.modes import Ending, Entry, Table, modes_with
from penstock.spec.night_kinds import COLUMN, XMIN
from penstock.spec.strategies import (
    AUTO,
    BLOCKS,
    CHILDREN,
    HASH,
    NTILE,
    RANGE,
    TIME,
    VALUES,
    WHOLE,
)

SYSTEM = "PostgreSQL"
LOADED = modes_with((*INSERTING, Entry.REPLACE, Entry.BY_KEY, Entry.ATTACH, Ending.MERGE))
# The others need the table that they replace, or whose children they create.
CREATING = tuple(
    mode for mode in LOADED if mode.ending is not Ending.EXCHANGE and mode.entry is not Entry.ATTACH
)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(*FORMATS, LINES, ROWS, ARROW),
    strategies=(AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, CHILDREN, WHOLE),
    block_strategy="ctid",
    nights=(XMIN, COLUMN),
    options=frozenset(SOURCE_OPTIONS),
    shows_waits=True,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(*FORMATS, CSV, ARROW),
    modes=LOADED,
    creating_modes=CREATING,
    options={
        "conflict_columns": tuple(mode for mode in LOADED if mode.entry is Entry.BY_KEY),
        # Replace finds the rows to delete by an index, and upsert the rows to update.
        "indexes": modes_with(INSERTING),
        "unlogged": tuple(mode for mode in LOADED if mode.replaces_table),
        "partitioning": tuple(mode for mode in LOADED if mode.table is Table.RECREATED),
        "types": CREATING,
        "enums": CREATING,
    },
    # Between two PostgreSQL servers, a table is created with the source's types.
    cross_system_options=frozenset({"types", "enums"}),
    replaces_by_condition=True,
    commits=TRANSACTIONAL,
    steps_with_records=True,
    joins_attempts=True,
    control_ddl=True,
    identifies_loaded_rows=True,
    shows_waits=True,
    # The server rejects schema names that begin like its own.
    reserved_schemas=("pg_*", "information_schema"),
    scratch=True,
)
