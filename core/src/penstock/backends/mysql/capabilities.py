"""The capabilities of MySQL and MariaDB as source and target."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    INSERTING,
    TRANSACTIONAL,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW, LINES
from penstock.spec.modes import Ending, Entry, modes_with
from penstock.spec.night_kinds import COLUMN
from penstock.spec.strategies import AUTO, CHILDREN, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "MySQL"
LOADED = modes_with((*INSERTING, Entry.REPLACE, Entry.BY_KEY, Ending.MERGE))
BY_KEY = tuple(mode for mode in LOADED if mode.entry is Entry.BY_KEY)
# The others need the table that they replace.
CREATING = tuple(mode for mode in LOADED if mode.ending is not Ending.EXCHANGE)

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
    cross_system_options=frozenset({"enums"}),
    replaces_by_condition=True,
    commits=TRANSACTIONAL,
    # DDL commits by itself.
    steps_with_records=False,
    control_ddl=True,
    identifies_loaded_rows=False,
    scratch=True,
)
