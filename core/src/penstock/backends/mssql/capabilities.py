"""What SQL Server can do."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    STAGED,
    WITHOUT_CHILDREN,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import APPEND, RECREATE, REPLACE, SWAP, TRUNCATE, UPSERT
from penstock.spec.night_kinds import COLUMN
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

SYSTEM = "SQL Server"
# Modes that load an existing table.
LOADING = (APPEND, TRUNCATE, REPLACE, UPSERT)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, CHILDREN, WHOLE),
    nights=(COLUMN,),
    block_strategy="physloc",
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=WITHOUT_CHILDREN,
    creating_modes=(*LOADING, RECREATE),
    options={
        "conflict_columns": (UPSERT,),
        # Replace finds the rows to delete by an index.
        "indexes": (APPEND, TRUNCATE, RECREATE, SWAP),
        "types": (*LOADING, RECREATE),
        "arrays": (*LOADING, RECREATE),
        "enums": (*LOADING, RECREATE),
    },
    replaces_by_condition=True,
    commits=STAGED,
    steps_with_records=True,
    control_ddl=True,
    identifies_loaded_rows=False,
    scratch=True,
)
