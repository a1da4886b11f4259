"""DuckDB's capabilities."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    INSERTING,
    STAGED,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import Ending, Entry, modes_with
from penstock.spec.night_kinds import COLUMN
from penstock.spec.strategies import AUTO, BLOCKS, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "DuckDB"
LOADED = modes_with((*INSERTING, Entry.REPLACE, Entry.BY_KEY, Ending.MERGE))
BY_KEY = tuple(mode for mode in LOADED if mode.entry is Entry.BY_KEY)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, WHOLE),
    nights=(COLUMN,),
    options=COMPUTING,
)

# After each transaction a checkpoint merges row groups of 122,880 rows with those left incomplete
# by others, if at most three become fewer. Behind three full groups it finds nothing to merge.
_LEAST_ROWS = 400_000

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=LOADED,
    creating_modes=LOADED,
    options={"conflict_columns": BY_KEY, "types": LOADED, "enums": LOADED},
    cross_system_options=frozenset({"enums"}),
    replaces_by_condition=True,
    commits=STAGED,
    steps_with_records=True,
    least_rows=_LEAST_ROWS,
    control_ddl=False,
    identifies_loaded_rows=False,
    scratch=True,
)
