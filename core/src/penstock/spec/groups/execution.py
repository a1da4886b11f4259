"""How a run is executed: its streams, its failures, and its name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from penstock.model.values import SHOW_VALUES, ShowValues
from penstock.spec.degrees import AUTO
from penstock.spec.option import option
from penstock.spec.worker_spec import Patience

OnError = Literal["stop", "continue"]
ON_ERROR = get_args(OnError)
OnTableError = Literal["continue", "stop"]
ON_TABLE_ERROR = get_args(OnTableError)
Verify = Literal["none", "counts", "checksums"]
VERIFY = get_args(Verify)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class StreamOptions:
    """The options under "streams"."""

    title: ClassVar[str] = "streams"

    degree: int | str = option(
        AUTO,
        "the number of concurrent streams: auto (one per CPU within a second, then adjusted "
        "while more bytes move), 0 (one per CPU), or -N (CPUs divided by N)",
        execution=True,
        metavar="N",
    )
    max_rate: int | None = option(
        None,
        "cap the combined rate of all streams, in bytes per second, such as 50MB",
        execution=True,
        metavar="SIZE",
    )
    max_lag: float | None = option(
        None,
        "use fewer streams, and finally none, while replication lags by more than this, such as "
        "30s; for a source that has standbys or is one",
        execution=True,
        metavar="DURATION",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class FailureOptions:
    """The options under "failures and checks"."""

    title: ClassVar[str] = "failures and checks"

    attempts: int = option(
        5,
        "how many times to try a partition whose errors are transient",
        execution=True,
        metavar="N",
    )
    on_error: OnError = option(
        "stop",
        "once a partition fails permanently: stop, or continue with the rest",
        execution=True,
        choices=ON_ERROR,
    )
    stall_timeout: float = option(
        600.0,
        "retry an attempt when no bytes have moved for this long, such as 90s or 10m; 0: never",
        execution=True,
        metavar="DURATION",
    )
    grace: float = option(
        10.0,
        "how long to wait for an older attempt or another session of the run that is in the way "
        "and makes no progress, before ending its session in the target",
        execution=True,
        metavar="DURATION",
    )
    claim: str | None = option(
        None,
        "who continues the run if it stops, such as a scheduler. Until the run is done or "
        "given up (penstock give-up), no other run may empty, drop or replace its table. Airflow "
        "and Dagster claim the runs that they start",
        execution=True,
        planned=True,
        metavar="TEXT",
    )
    stale_after: float = option(
        86400.0,
        "modes truncate, recreate and swap: take over a table from a claimed run that has made no "
        "progress for this long, such as 12h",
        execution=True,
        metavar="DURATION",
    )
    verify: Verify = option(
        "none",
        "once every partition is committed, compare source and target while the snapshot is "
        "held, by row counts or by checksums of the values; a difference fails the run, and "
        "prevents a swap",
        execution=True,
        choices=VERIFY,
    )

    @cached_property
    def patience(self) -> Patience:
        """The time to wait for sessions that block, or make no progress."""
        return Patience(self.grace, self.stall_timeout)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class RunOptions:
    """The options under "run"."""

    title: ClassVar[str] = "run"

    run_id: str | None = option(
        None,
        "the run's name (default: generated); repeating a command with the same name and "
        "options continues that run",
        execution=True,
        planned=True,
        metavar="RUN_ID",
    )
    control_schema: str = option(
        "penstock", "the target's schema for runs and commit records", metavar="NAME"
    )
    show_values: ShowValues | None = option(
        None,
        "whether messages show values of rows, and partition bounds that are texts: never, or "
        "errors (show them). By default as PENSTOCK_SHOW_VALUES says, else errors on a terminal "
        "and never elsewhere",
        execution=True,
        choices=SHOW_VALUES,
    )
