"""The capabilities of Parquet files, on disk and in a bucket."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    INSERTING,
    ROLL_FORWARD,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import Entry, modes_with
from penstock.spec.night_kinds import COLUMN
from penstock.spec.night_kinds import FILES as BY_FILES
from penstock.spec.strategies import AUTO, FILES, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "Parquet"
# Rows in files cannot be updated.
LOADED = modes_with((*INSERTING, Entry.REPLACE))

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, RANGE, NTILE, HASH, VALUES, TIME, FILES, WHOLE),
    nights=(BY_FILES, COLUMN),
    options=COMPUTING,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=LOADED,
    creating_modes=LOADED,
    options={
        "types": LOADED,
        "partition_by": LOADED,
        "file_size": LOADED,
        "row_group_size": LOADED,
        "compression": LOADED,
    },
    replaces_by_condition=False,
    commits=ROLL_FORWARD,
    steps_with_records=False,
    control_ddl=False,
    identifies_loaded_rows=True,
    scratch=True,
)
