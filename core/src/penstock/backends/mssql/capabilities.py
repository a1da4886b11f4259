"""What SQL Server can do."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    INSERTING,
    STAGED,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import Ending, Entry, modes_with
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
LOADED = modes_with((*INSERTING, Entry.REPLACE, Entry.BY_KEY))
BY_KEY = tuple(mode for mode in LOADED if mode.entry is Entry.BY_KEY)
# The others need the table that they replace.
CREATING = tuple(mode for mode in LOADED if mode.ending is not Ending.EXCHANGE)

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
    modes=LOADED,
    creating_modes=CREATING,
    options={
        "conflict_columns": BY_KEY,
        # Replace finds the rows to delete by an index.
        "indexes": modes_with(INSERTING),
        "types": CREATING,
        "arrays": CREATING,
        "enums": CREATING,
    },
    replaces_by_condition=True,
    commits=STAGED,
    steps_with_records=True,
    control_ddl=True,
    identifies_loaded_rows=False,
    scratch=True,
)
