"""The capabilities of CSV and JSON lines."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.capabilities import (
    COMPUTING,
    INSERTING,
    ROLL_FORWARD,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW, CSV, ROWS
from penstock.spec.modes import Entry, modes_with
from penstock.spec.strategies import AUTO, FILES, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "CSV, JSON lines"
# Rows of files cannot be updated.
LOADED = modes_with((*INSERTING, Entry.REPLACE))

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(CSV, ARROW),
    strategies=(AUTO, RANGE, NTILE, HASH, VALUES, TIME, FILES, WHOLE),
    options=COMPUTING,
)

# Only CSV can pass through as it is.
JSON_SOURCE = replace(SOURCE, formats=(ARROW,))

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ROWS, ARROW),
    modes=LOADED,
    creating_modes=LOADED,
    options={"types": LOADED, "partition_by": LOADED, "file_size": LOADED},
    replaces_by_condition=False,
    commits=ROLL_FORWARD,
    steps_with_records=False,
    control_ddl=False,
    identifies_loaded_rows=True,
)
JSON_TARGET = replace(TARGET, formats=(ARROW,))
