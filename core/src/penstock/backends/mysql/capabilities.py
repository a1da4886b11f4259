"""What MySQL and MariaDB can do."""

from __future__ import annotations

from penstock.backends.api.capabilities import TRANSACTIONAL, SourceCapabilities, TargetCapabilities
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import MODES, RECREATE, UPSERT
from penstock.spec.strategies import AUTO, HASH, NTILE, RANGE, TIME, VALUES, WHOLE

SYSTEM = "MySQL"

SOURCE = SourceCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    strategies=(AUTO, RANGE, NTILE, HASH, VALUES, TIME, WHOLE),
)

TARGET = TargetCapabilities(
    system=SYSTEM,
    formats=(ARROW,),
    modes=tuple(MODES.values()),
    makes_missing=(RECREATE,),
    options={"conflict_columns": (UPSERT,), "types": (RECREATE,)},
    replaces_by_condition=True,
    commits=TRANSACTIONAL,
    # DDL commits by itself.
    steps_with_records=False,
    control_ddl=True,
    tells_rows_apart=False,
)
