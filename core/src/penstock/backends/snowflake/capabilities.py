"""Snowflake's capabilities."""

from __future__ import annotations

from penstock.backends.api.capabilities import (
    COMPUTING,
    STAGED,
    WITHOUT_CHILDREN,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import APPEND, RECREATE, REPLACE, TRUNCATE, UPSERT
from penstock.spec.night_kinds import COLUMN
from penstock.spec.strategies import AUTO, HASH, NTILE, RANGE, VALUES, WHOLE

SYSTEM = "Snowflake"
# Modes that load an existing table.
LOADING = (APPEND, TRUNCATE, REPLACE, UPSERT)

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
    modes=WITHOUT_CHILDREN,
    creating_modes=(*LOADING, RECREATE),
    options={
        "conflict_columns": (UPSERT,),
        "types": (*LOADING, RECREATE),
        "arrays": (*LOADING, RECREATE),
        "file_size": WITHOUT_CHILDREN,
    },
    replaces_by_condition=True,
    commits=STAGED,
    # DDL commits by itself.
    steps_with_records=False,
    control_ddl=True,
    identifies_loaded_rows=False,
)
