"""ClickHouse's capabilities."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    INSERTING,
    ROLL_FORWARD,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import modes_with
from penstock.spec.night_kinds import COLUMN
from penstock.spec.strategies import AUTO, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "ClickHouse"
# Deleting rows and moving others into their place is not atomic, so there is no replace; and no key
# is unique, so there is no upsert.
LOADED = modes_with(INSERTING)

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, RANGE, NTILE, HASH, VALUES, TIME, WHOLE),
    nights=(COLUMN,),
    shared_snapshots=False,
    options=COMPUTING,
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=LOADED,
    creating_modes=LOADED,
    options={"types": LOADED, "order_by": LOADED},
    replaces_by_condition=True,
    commits=ROLL_FORWARD,
    steps_with_records=False,
    control_ddl=False,
    identifies_loaded_rows=False,
)
