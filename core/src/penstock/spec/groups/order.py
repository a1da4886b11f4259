"""The groups of options, in order."""

from __future__ import annotations

from penstock.spec.groups.created_tables import CreatedTables, WrittenFiles
from penstock.spec.groups.execution import FailureOptions, RunOptions, StreamOptions
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.nights import Nights
from penstock.spec.groups.partitioning import PartitionOptions
from penstock.spec.groups.route import Route
from penstock.spec.groups.snapshot import SnapshotOptions

GROUPS = (
    Route,
    Loading,
    PartitionOptions,
    StreamOptions,
    SnapshotOptions,
    FailureOptions,
    Nights,
    CreatedTables,
    WrittenFiles,
    RunOptions,
)
"""In the order in which people need them."""
