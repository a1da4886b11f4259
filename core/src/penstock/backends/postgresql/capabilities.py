"""The capabilities of PostgreSQL as source and target."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    SOURCE_OPTIONS,
    TRANSACTIONAL,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW, LINES
from penstock.backends.postgresql.session.statements import FORMATS
from penstock.spec.modes import (
    APPEND,
    MERGE,
    MODES,
    RECREATE,
    REPLACE,
    REPLACE_AT_END,
    SWAP,
    TRUNCATE,
    UPSERT,
)
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
# Modes that load an existing table.
LOADING = (APPEND, TRUNCATE, REPLACE, UPSERT)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(*FORMATS, LINES, ARROW),
    strategies=(AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, CHILDREN, WHOLE),
    block_strategy="ctid",
    nights=(XMIN, COLUMN),
    options=frozenset(SOURCE_OPTIONS),
    shows_waits=True,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(*FORMATS, ARROW),
    modes=(*MODES.values(), MERGE, REPLACE_AT_END),
    creating_modes=(*LOADING, MERGE, REPLACE_AT_END, RECREATE),
    options={
        "conflict_columns": (UPSERT, MERGE),
        # Replace finds the rows to delete by an index, and upsert the rows to update.
        "indexes": (APPEND, TRUNCATE, RECREATE, SWAP),
        "unlogged": (TRUNCATE, RECREATE, SWAP),
        "partitioning": (RECREATE,),
        "types": (*LOADING, MERGE, REPLACE_AT_END, RECREATE),
        "enums": (*LOADING, MERGE, REPLACE_AT_END, RECREATE),
    },
    # Between two PostgreSQL servers, a table is created with the source's types.
    cross_system_options=frozenset({"types", "enums"}),
    replaces_by_condition=True,
    commits=TRANSACTIONAL,
    steps_with_records=True,
    control_ddl=True,
    identifies_loaded_rows=True,
    shows_waits=True,
    # The server rejects schema names that begin like its own.
    reserved_schemas=("pg_*", "information_schema"),
    scratch=True,
)
