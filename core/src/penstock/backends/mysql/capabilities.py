"""The capabilities of MySQL and MariaDB as source and target."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    TRANSACTIONAL,
    WITHOUT_CHILDREN,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW, LINES
from penstock.spec.modes import (
    APPEND,
    MERGE,
    RECREATE,
    REPLACE,
    REPLACE_AT_END,
    SWAP,
    TRUNCATE,
    UPSERT,
)
from penstock.spec.night_kinds import COLUMN
from penstock.spec.strategies import AUTO, CHILDREN, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "MySQL"
# Modes that load an existing table.
LOADING = (APPEND, TRUNCATE, REPLACE, UPSERT, MERGE, REPLACE_AT_END)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, RANGE, NTILE, HASH, VALUES, TIME, CHILDREN, WHOLE),
    nights=(COLUMN,),
    options=COMPUTING,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(LINES, ARROW),
    modes=(*WITHOUT_CHILDREN, MERGE, REPLACE_AT_END),
    creating_modes=(*LOADING, RECREATE),
    options={
        "conflict_columns": (UPSERT, MERGE),
        # Replace finds the rows to delete by an index.
        "indexes": (APPEND, TRUNCATE, RECREATE, SWAP),
        "types": (*LOADING, RECREATE),
        "arrays": (*LOADING, RECREATE),
        "enums": (*LOADING, RECREATE),
    },
    cross_system_options=frozenset({"enums"}),
    replaces_by_condition=True,
    commits=TRANSACTIONAL,
    # DDL commits by itself.
    steps_with_records=False,
    control_ddl=True,
    identifies_loaded_rows=False,
    scratch=True,
)
