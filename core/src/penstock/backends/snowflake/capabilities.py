"""Snowflake's capabilities."""

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
from penstock.spec.strategies import AUTO, HASH, NTILE, RANGE, VALUES, WHOLE

SYSTEM = "Snowflake"
LOADED = modes_with((*INSERTING, Entry.REPLACE, Entry.BY_KEY))
BY_KEY = tuple(mode for mode in LOADED if mode.entry is Entry.BY_KEY)
# The others need the table that they replace.
CREATING = tuple(mode for mode in LOADED if mode.ending is not Ending.EXCHANGE)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, RANGE, NTILE, HASH, VALUES, WHOLE),
    nights=(COLUMN,),
    options=COMPUTING,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=LOADED,
    creating_modes=CREATING,
    options={
        "conflict_columns": BY_KEY,
        "types": CREATING,
        "arrays": CREATING,
        "file_size": LOADED,
    },
    replaces_by_condition=True,
    commits=STAGED,
    # DDL commits by itself.
    steps_with_records=False,
    control_ddl=True,
    identifies_loaded_rows=False,
)
