"""A run's current state in its target, as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.events import PartitionFailure
from penstock.model.journal import KILLED
from penstock.model.plans import id_list
from penstock.model.records import read_later
from penstock.show.console import Console, Text, TextColumn, make_table, print_facts, print_heading
from penstock.show.plan_table import print_not_copied
from penstock.show.report_facts import HOW_TO_GO_ON
from penstock.show.run_report import STATUS_STYLES, print_failure
from penstock.show.text import number, one_line, size
from penstock.spec.modes import Ending, mode_of

if TYPE_CHECKING:
    from penstock.engine.api import RunStatus
    from penstock.model.journal import Journal
    from penstock.model.nights import NightStatus

_MOST_PENDING = 12


def print_status(console: Console, status: RunStatus) -> None:
    """Print a run's current state in its target."""
    run = status.run
    plan = run.plan
    done = {record.partition_id for record in status.committed}
    running = {attempt.partition_id for attempt in status.running}
    pending = [
        position
        for position, partition in enumerate(plan.partitions)
        if partition.id not in done and partition.id not in running
    ]
    shown = KILLED if run.status == "running" and status.at_work is False else run.status
    console.print(
        Text.assemble(
            "run ",
            (run.run_id, "bold"),
            " ",
            (shown, STATUS_STYLES.get(shown, "bold")),
        )
    )
    facts: list[tuple[str, str | Text]] = [("created", run.created_at)]
    if run.prepared_at:
        facts.append(("prepared", run.prepared_at))
    if run.finished_at:
        facts.append(("finished", run.finished_at))
    if shown == KILLED:
        facts.append(("killed", HOW_TO_GO_ON))
    facts += _spec_facts(run.spec, plan.strategy)
    facts += [
        ("partitions", f"{len(done):,} of {len(plan.partitions):,} committed"),
        ("rows", number(sum(record.rows for record in status.committed))),
        ("bytes", size(sum(record.bytes for record in status.committed))),
        ("running", number(len(running))),
    ]
    moments = {snapshot.taken_at for snapshot in run.snapshots}
    if len(moments) > 1:
        facts.append(("snapshots", number(len(moments))))
    for moment, partitions in read_later(status.committed).items():
        facts.append(("read later", f"{one_line(id_list(partitions))}, as of {moment}"))
    steps = plan.load.after
    if steps:
        steps_to_do = [step.name for step in steps if step.id not in status.steps_done]
        facts.append(
            ("steps", f"{len(steps) - len(steps_to_do):,} of {len(steps):,} done after the last")
        )
        facts += [("to do", one_line(name)) for name in steps_to_do]
    if status.night is not None:
        facts += _night_facts(status.night, is_load=mode_of(run.spec).ending is not Ending.MERGE)
    if pending:
        ids = [one_line(partition.id) for partition in plan.partitions]
        facts.append(("pending", f"{len(pending):,}: {_spans(ids, pending)}"))
    print_facts(console, facts)
    if status.running:
        print_heading(console, "running attempts")
        console.print(
            make_table(
                console,
                [
                    TextColumn("  partition"),
                    TextColumn("attempt", right=True),
                    TextColumn("bytes", right=True),
                    TextColumn("state", from_width=50),
                    TextColumn("since", wide=True, from_width=70),
                ],
                [
                    [
                        f"  {one_line(item.partition_id)}",
                        number(item.attempt),
                        size(item.bytes),
                        one_line(item.state),
                        one_line(item.since),
                    ]
                    for item in status.running
                ],
            )
        )
    if status.executions:
        _print_executions(
            console, status.executions, {each.partition_id for each in status.committed}
        )
    print_not_copied(console, (*plan.load.not_copied, *status.unrestored))
    if run.failures:
        print_heading(console, "failures")
        for failure in run.failures:
            print_failure(
                console,
                PartitionFailure(
                    partition_id=str(failure.get("partition_id", "?")),
                    label=str(failure.get("label", "")),
                    attempts=int(failure.get("attempts", 0)),
                    error=failure.get("error", {}),
                ),
            )


def _doing(execution: Journal, committed: Collection[str]) -> str:
    # A process that does not write any more may have committed what it was copying.
    if copying := [each for each in execution.open if each not in committed]:
        return one_line(id_list(copying))
    return f"({execution.turn})" if execution.turn else "nothing"


def _print_executions(
    console: Console, executions: Sequence[Journal], committed: Collection[str]
) -> None:
    print_heading(console, "processes")
    console.print(
        make_table(
            console,
            [
                TextColumn("  host"),
                TextColumn("pid", right=True),
                TextColumn("per second", right=True),
                TextColumn("copying"),
                TextColumn("heard", wide=True, from_width=70),
            ],
            [
                [
                    f"  {one_line(each.host)}",
                    str(each.pid),
                    size(round(each.rate)),
                    _doing(each, committed),
                    one_line(each.written_at),
                ]
                for each in executions
            ],
        )
    )


def _night_facts(night: NightStatus, *, is_load: bool) -> list[tuple[str, str | Text]]:
    read = f"what may have changed since {night.since}" if night.since else "all rows"
    read = f"rows with {night.lower}" if night.lower else read
    facts: list[tuple[str, str | Text]] = [
        ("watermark", one_line(night.watermark)),
        ("reads", f"{read}{f', since {night.full}' if night.full else ''}"),
    ]
    if night.unproven:
        facts.append(("not proven", one_line(night.unproven)))
    if merged := night.merged:
        changes = (
            f"{merged.inserted:,} inserted, {merged.updated:,} updated, {merged.deleted:,} deleted"
        )
        moment = merged.moment or "no known moment"
        label = "set" if is_load else "merged"
        facts.append((label, f"as of {moment}, epoch {merged.epoch}: {changes}"))
    elif by := night.overtaken_by:
        when = f", as of {by.moment}" if by.moment else ""
        facts.append(("overtaken", f"by {by.run_id}{when}: it merges nothing any more"))
    return facts


def _spec_facts(spec: Mapping[str, Any], strategy: str) -> list[tuple[str, str | Text]]:
    table, target_table = spec.get("table"), spec.get("target_table")
    names = [name for name in (table, target_table) if name]
    # Show one name if both are the same, or if only one end has a name: the URLs tell them apart.
    names = names[:1] if len(set(names)) < 2 else names
    key = f" of {spec['key']}" if spec.get("key") else ""
    facts = [
        ("table", " to ".join(names)),
        ("query", spec.get("query")),
        ("source", spec.get("source")),
        ("target", spec.get("target")),
        ("strategy", f"{strategy}{key}"),
        ("mode", spec.get("mode")),
        ("where", spec.get("where")),
        ("columns", ", ".join(spec.get("columns") or ())),
    ]
    return [(name, one_line(str(value))) for name, value in facts if value]


def _spans(ids: Sequence[str], positions: Sequence[int]) -> str:
    """Join neighbours in the plan to `first to last`, up to a few such spans."""
    spans: list[list[int]] = []
    for position in positions:
        if spans and spans[-1][-1] == position - 1:
            spans[-1][1:] = [position]
        else:
            spans.append([position])
    texts = [" to ".join(ids[position] for position in span) for span in spans[:_MOST_PENDING]]
    more = sum(1 if len(span) == 1 else span[1] - span[0] + 1 for span in spans[_MOST_PENDING:])
    return ", ".join(texts) + (f" and {more:,} more" if more else "")
