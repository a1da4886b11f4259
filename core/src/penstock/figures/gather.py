"""The report of a run, read from its target's control store."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Any

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.figures.advice import RunFacts, advice
from penstock.figures.run_report import (
    ExecutionFigures,
    PartitionFigures,
    RunReport,
    TimeSpent,
    WaitShare,
)
from penstock.figures.skew import outliers
from penstock.figures.timeline import execution_seconds, merge_timelines, working_seconds
from penstock.model.extents import KeyRange
from penstock.model.journal import (
    COPYING,
    FINISHING,
    KILLED,
    PHASES,
    PLANNING,
    RUNNING,
    Journal,
    Waited,
)
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.modes import Table, mode_of
from penstock.spec.strategies import NAMED, NTILE, RANGE, STRATEGIES, VALUES, Strategy

SLOWEST = 10
# Runs of a batch to load in one statement.
_AT_ONCE = 100
# Waits to list per server.
MOST_WAITS = 8
# The option that partitions the table without scanning it, by strategy.
_CHEAPER_PLANS = {NTILE: f"--strategy {RANGE}", VALUES: "--values-query"}
_FLAGS = {"indexes": "--indexes defer", "unlogged": "--unlogged"}
_SIDES = ("source", "target")


def report_of(
    control: ControlStore,
    target: TargetCapabilities,
    run_id: str,
    has_indexes: Callable[[TableRef], bool],
    at_work: Callable[[RunRow], bool | None],
) -> RunReport | None:
    """Return the report of a run or a batch; None if neither exists.

    Args:
        control: the target's control store.
        target: the target's capabilities, for advice.
        run_id: the id of a run or a batch.
        has_indexes: see `WithIndexes`; called only if the answer matters.
        at_work: whether a process is executing a run now; None if unknown.
    """
    look = _Look(control, target, has_indexes, at_work)
    if runs := look.at_runs([run_id]):
        return runs[0]
    journals = control.journals.of([run_id])[run_id]
    if not journals:
        return None
    tables = list(dict.fromkeys(name for journal in journals for name in journal.runs))
    reports = [
        report
        for start in range(0, len(tables), _AT_ONCE)
        for report in look.at_runs(tables[start : start + _AT_ONCE])
    ]
    if any(report.status == KILLED for report in reports):
        journals = _mark_killed(journals)
    return _of_batch(run_id, journals, reports, len(tables))


@dataclass(frozen=True, slots=True)
class _Look:
    """The sources of a report; see `report_of`."""

    control: ControlStore
    target: TargetCapabilities
    has_indexes: Callable[[TableRef], bool]
    at_work: Callable[[RunRow], bool | None]

    def at_runs(self, run_ids: Sequence[str]) -> list[RunReport]:
        """Return the reports of the runs that exist."""
        control = self.control
        stored = control.runs.load(run_ids)
        runs = [stored[run_id] for run_id in run_ids if run_id in stored]
        if not runs:
            return []
        records, journals = control.commits.of(run_ids), control.journals.of(run_ids)
        return [
            self._at_run(run, records.get(run.run_id, ()), journals.get(run.run_id, ()))
            for run in runs
        ]

    def _at_run(
        self, run: RunRow, records: Sequence[CommitRecord], journals: Sequence[Journal]
    ) -> RunReport:
        open_ended = RUNNING in (run.status, *(journal.status for journal in journals))
        if open_ended and self.at_work(run) is False:
            journals = _mark_killed(journals)
            run = replace(run, status=KILLED if run.status == RUNNING else run.status)
        return of_run(run, records, journals, self.target, self.has_indexes)


def _mark_killed(journals: Sequence[Journal]) -> tuple[Journal, ...]:
    """Mark open executions as killed; called if no process is at work."""
    return tuple(
        replace(journal, status=KILLED) if journal.status == RUNNING else journal
        for journal in journals
    )


def of_run(
    run: RunRow,
    records: Sequence[CommitRecord],
    journals: Sequence[Journal],
    target: TargetCapabilities,
    has_indexes: Callable[[TableRef], bool],
) -> RunReport:
    """Return the report of a run from its stored figures.

    Args:
        run: the stored run.
        records: the commit records of its partitions.
        journals: its journals, one for each execution, oldest first.
        target: the target's capabilities, for advice.
        has_indexes: see `WithIndexes`; called only if the answer matters.
    """
    plan = run.plan
    labels = {partition.id: str(partition.extent) for partition in plan.partitions}
    partitions = sorted(
        (_partition(record, labels.get(record.partition_id, "")) for record in records),
        key=lambda partition: -partition.seconds,
    )
    spent, far = _sum(partition.spent for partition in partitions), outliers(partitions)
    slow = next((outlier for outlier in far if outlier.measure == "seconds"), None)
    # With no more rows than others, these partitions have wide rows, and other bounds would not
    # help.
    large = {outlier.partition_id for outlier in far if outlier.measure == "rows"}
    report = RunReport(
        run_id=run.run_id,
        what=_route_text(run.spec),
        status=run.status,
        mode=str(run.spec.get("mode", "")),
        strategy=plan.strategy,
        created_at=run.created_at,
        finished_at=run.finished_at,
        partitions=len(plan.partitions),
        committed=len(records),
        rows=sum(record.rows for record in records),
        bytes=sum(record.bytes for record in records),
        spent=spent,
        slowest=tuple(partitions[:SLOWEST]),
        outliers=far,
        unknown=tuple(_unknown(records, journals)),
        columns=tuple(_columns(run.spec)),
        **_from_journals(journals),
    )
    facts = replace(
        _facts(report, journals),
        copying=_span(records) if report.copying is None else report.copying,
        partitions=report.partitions,
        median=median(partition.seconds for partition in partitions) if partitions else 0.0,
        slow=slow,
        deferrable=applicable(run.spec, target, "indexes"),
        unlogged=applicable(run.spec, target, "unlogged"),
        counts=_strategy(run).counts,
        even=_even(run) if slow and slow.partition_id in large else "",
        cheaper_plan=_CHEAPER_PLANS.get(_strategy(run), ""),
    )
    advised = advice(facts)
    if facts.deferrable and facts.deferrable in advised and not has_indexes(plan.load.table):
        advised = advice(replace(facts, deferrable=""))
    return replace(report, advice=advised)


def _of_batch(
    batch_id: str, journals: Sequence[Journal], runs: Sequence[RunReport], tables: int
) -> RunReport:
    """Return the report of a batch of tables, some of which may have no run."""
    slowest = sorted(
        (
            replace(partition, label=f"{run.what}: {partition.label}")
            for run in runs
            for partition in run.slowest
        ),
        key=lambda partition: -partition.seconds,
    )
    last, phases = journals[-1], _phases(journals)
    report = RunReport(
        run_id=batch_id,
        what=f"{tables:,} table{'' if tables == 1 else 's'}",
        status=last.status,
        mode=", ".join(dict.fromkeys(run.mode for run in runs)),
        created_at=journals[0].started_at,
        finished_at=None if last.status in (RUNNING, KILLED) else last.written_at,
        partitions=sum(run.partitions for run in runs),
        committed=sum(run.committed for run in runs),
        rows=sum(run.rows for run in runs),
        bytes=sum(run.bytes for run in runs),
        spent=_sum(run.spent for run in runs),
        slowest=tuple(slowest[:SLOWEST]),
        unknown=tuple(_unheard(journals)),
        runs=tuple(sorted(runs, key=lambda run: -(run.spent.total if run.spent else 0.0))),
        phases=phases,
        **_from_journals(journals) | ({"copying": phases[COPYING]} if phases else {}),
    )
    facts = replace(_facts(report, journals), tables=tables)
    if phases:
        # Windows are copied one after the other, with other work in between.
        facts = replace(facts, planning=phases[PLANNING], steps=phases[FINISHING])
    return replace(report, advice=advice(facts))


def _phases(journals: Sequence[Journal]) -> dict[str, float]:
    """Return the phases of a batch; empty if an execution recorded none."""
    if not all(journal.phases for journal in journals):
        return {}
    return {
        phase: round(sum(journal.phases.get(phase, 0.0) for journal in journals), 3)
        for phase in PHASES
    }


def _from_journals(journals: Sequence[Journal]) -> dict[str, Any]:
    """Return the fields of a `RunReport` that come from the journals of a run or batch."""
    return {
        "degree": max((journal.degree for journal in journals), default=0),
        "seconds": round(execution_seconds(journals), 3) if journals else None,
        "copying": round(_copying(journals), 3) if journals else None,
        "planning": _total(journals, "planning"),
        "comparing": _total(journals, "comparing"),
        "steps": _steps(journals),
        "finishing": _total(journals, "finishing"),
        "failed_attempts": sum(journal.failed for journal in journals),
        "lost": _total(journals, "lost"),
        "tail": _total(journals, "tail"),
        "idle": _total(journals, "idle"),
        "waits": _waits(journals),
        "timeline": merge_timelines(journals),
        "executions": tuple(map(_execution, journals)),
    }


def _facts(report: RunReport, journals: Sequence[Journal]) -> RunFacts:
    return RunFacts(
        spent=report.spent,
        planning=report.planning,
        copying=report.copying or 0.0,
        steps=report.finishing,
        degree=report.degree,
        tail=report.tail,
        idle=report.idle,
        lost_seconds=report.lost,
        waits=_kinds(journals),
    )


def _route_text(spec: Mapping[str, Any]) -> str:
    source = spec.get("table") or spec.get("query") or spec.get("source") or "?"
    target = spec.get("target_table") or spec.get("target") or "?"
    return str(source) if source == target else f"{source} to {target}"


def _columns(spec: Mapping[str, Any]) -> Iterator[str]:
    for what, name in (("masked", "mask"), ("set", "set"), ("excluded", "exclude_columns")):
        if spec.get(name):
            yield f"{what}: {', '.join(spec[name])}"


def _partition(record: CommitRecord, label: str) -> PartitionFigures:
    spent = record.spent
    if spent is None:
        times, seconds = None, _span([record])
    else:
        times = TimeSpent.of(spent.seconds, spent.source, spent.target, spent.paced)
        seconds = spent.seconds
    return PartitionFigures(
        record.partition_id,
        label,
        record.attempt,
        record.rows,
        record.bytes,
        round(seconds, 3),
        times,
    )


def _sum(times: Iterable[TimeSpent | None]) -> TimeSpent | None:
    spent = [each for each in times if each is not None]
    if not spent:
        return None
    names = ("source", "target", "moving", "paced")
    sums = (sum(getattr(each, name) for each in spent) for name in names)
    return TimeSpent(*(round(each, 3) for each in sums))


def _span(records: Sequence[CommitRecord]) -> float:
    """Return the seconds from the first begin to the last commit."""
    if not records:
        return 0.0
    start = min(datetime.fromisoformat(record.started_at) for record in records)
    ended = max(datetime.fromisoformat(record.committed_at) for record in records)
    return max(0.0, (ended - start).total_seconds())


def _copying(journals: Sequence[Journal]) -> float:
    return working_seconds((journal.copied_from, journal.copying, journal) for journal in journals)


def _steps(journals: Sequence[Journal]) -> dict[str, float]:
    steps: dict[str, float] = {}
    for journal in journals:
        for name, seconds in journal.steps.items():
            steps[name] = round(steps.get(name, 0.0) + seconds, 3)
    return dict(sorted(steps.items(), key=lambda step: -step[1]))


def _total(journals: Sequence[Journal], name: str) -> float:
    return round(float(sum(getattr(journal, name) for journal in journals)), 3)


def _shares(journals: Sequence[Journal], side: str) -> list[WaitShare]:
    """Return the waits of a side's sessions, the most frequent first."""
    waits: dict[str, Waited] = {}
    for journal in journals:
        for wait, waited in journal.waits.get(side, {}).items():
            before = waits[wait].sessions if wait in waits else 0
            waits[wait] = Waited(before + waited.sessions, waited.kind)
    total = sum(waited.sessions for waited in waits.values())
    shares = [
        WaitShare(wait, waited.kind, waited.sessions / total) for wait, waited in waits.items()
    ]
    return sorted(shares, key=lambda each: -each.share)


def _waits(journals: Sequence[Journal]) -> dict[str, tuple[WaitShare, ...]]:
    sides = {side: _shares(journals, side)[:MOST_WAITS] for side in _SIDES}
    return {
        side: tuple(replace(each, share=round(each.share, 4)) for each in shares)
        for side, shares in sides.items()
        if shares
    }


def _kinds(journals: Sequence[Journal]) -> dict[str, dict[str, float]]:
    """Return the share of each kind of wait, by side."""
    kinds: dict[str, dict[str, float]] = {}
    for side in _SIDES:
        for each in _shares(journals, side):
            shares = kinds.setdefault(side, {})
            shares[each.kind] = shares.get(each.kind, 0.0) + each.share
    return kinds


def _execution(journal: Journal) -> ExecutionFigures:
    return ExecutionFigures(
        journal.execution_id,
        journal.started_at,
        journal.status,
        journal.written_at,
        journal.seconds,
        journal.degree,
        journal.attempts,
        journal.failed,
        journal.failures,
        journal.degrees,
    )


def applicable(spec: Mapping[str, Any], target: TargetCapabilities, name: str) -> str:
    """Return an option that might help; empty if it is set or does not apply.

    Args:
        spec: the stored options of the run.
        target: the target's capabilities.
        name: the option's field, ``indexes`` or ``unlogged``.
    """
    mode = mode_of(spec)
    if spec.get(name) not in (None, False, "keep") or mode not in target.options.get(name, ()):
        return ""
    if name == "indexes" and mode.table is not Table.TARGET:
        return ""  # indexes of a new table are always built after the load
    return _FLAGS[name]


def _strategy(run: RunRow) -> Strategy:
    # A system may have its own name for the chosen strategy.
    return STRATEGIES.get(run.plan.strategy) or STRATEGIES.get(run.spec["strategy"], NAMED)


def _even(run: RunRow) -> str:
    """Return the options that partition by counting rows; empty unless bounds are statistics."""
    partitions = run.plan.partitions
    extent = partitions[0].extent if partitions else None
    if not _strategy(run).needs_statistics or not isinstance(extent, KeyRange):
        return ""
    return f"--strategy {NTILE} --key {shlex.quote(extent.key.text)}"


def _unknown(records: Sequence[CommitRecord], journals: Sequence[Journal]) -> Iterable[str]:
    if records and not any(journal.points for journal in journals):
        yield (
            "how the rate developed, and what the servers waited for: no execution got to write "
            "its journal"
        )
        return
    for side in _SIDES:
        if journals and not any(side in journal.waits for journal in journals):
            yield (
                f"what sessions of the {side} waited for: the server does not report it, or no "
                "session was seen"
            )
    yield from _unheard(journals)


def _unheard(journals: Sequence[Journal]) -> Iterable[str]:
    for journal in journals:
        if journal.status in (RUNNING, KILLED):
            went = "ended: it was killed, and" if journal.status == KILLED else "continues: it"
            also = "" if journal.status == KILLED else ", and is still running or was killed"
            yield (
                f"how execution {journal.execution_id} {went} was last heard from at "
                f"{journal.written_at}{also}"
            )
