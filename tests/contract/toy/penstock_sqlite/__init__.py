"""SQLite as source and target: a minimal backend, as an example to copy."""

from __future__ import annotations

from penstock.backends.api.capabilities import STAGED, SourceCapabilities, TargetCapabilities
from penstock.backends.api.worker import ARROW
from penstock.backends.shared.database_file import FileUrls
from penstock.backends.sql.one_file.backend import FileBackend
from penstock.spec.modes import APPEND, REPLACE, TRUNCATE
from penstock.spec.strategies import AUTO, HASH, NTILE, VALUES, WHOLE

SOURCE = SourceCapabilities(
    system="SQLite", formats=(ARROW,), strategies=(AUTO, NTILE, HASH, VALUES, WHOLE)
)
TARGET = TargetCapabilities(
    system="SQLite",
    formats=(ARROW,),
    modes=(APPEND, TRUNCATE, REPLACE),
    replaces_by_condition=True,
    commits=STAGED,
    steps_with_records=True,
)
backend = FileBackend(
    __name__, FileUrls("sqlite"), SOURCE, TARGET, kinds=("sqlite",), rewrites="a change of its rows"
)
"""The object that the entry point names."""
