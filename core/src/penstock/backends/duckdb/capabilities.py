"""DuckDB's capabilities."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    STAGED,
    WITHOUT_CHILDREN,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
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
from penstock.spec.strategies import AUTO, BLOCKS, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "DuckDB"
MAKING = (APPEND, TRUNCATE, REPLACE, UPSERT, MERGE, REPLACE_AT_END, RECREATE, SWAP)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, WHOLE),
    nights=(COLUMN,),
    options=COMPUTING,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=(*WITHOUT_CHILDREN, MERGE, REPLACE_AT_END),
    creating_modes=MAKING,
    options={"conflict_columns": (UPSERT, MERGE), "types": MAKING, "enums": MAKING},
    cross_system_options=frozenset({"enums"}),
    replaces_by_condition=True,
    commits=STAGED,
    steps_with_records=True,
    control_ddl=False,
    identifies_loaded_rows=False,
    scratch=True,
)
