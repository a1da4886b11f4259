"""Many processes that work on one run, compared with one that has as many streams."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.cost import TAIL, CommandFailed, Cost, measure
from benchmarks.report import Limit, show_table, tell
from penstock import CopySpec, create

PARTITIONS = 10_000
ROWS = 1_000_000
STREAMS = 50
ONE, MANY = f"1 process, {STREAMS} streams", f"{STREAMS} processes, 1 stream each"
MOST_MS = 3.0
MOST_WALL = 1.1


def run(bench: Bench, repeat: int) -> Workers:
    """Copy a table in ten thousand partitions, by one process and by fifty."""
    tell("workers: making a table")
    bench.on_source(
        "CREATE TABLE worked AS SELECT id::bigint, md5(id::text) AS filler"
        " FROM generate_series(1, 1000000) AS id"
    )
    bench.on_source("ALTER TABLE worked ADD PRIMARY KEY (id)")
    bench.on_source("VACUUM (ANALYZE) worked")
    bench.on_target("CREATE UNLOGGED TABLE worked (id bigint, filler text)")
    costs: dict[str, list[Cost]] = {}
    for turn in range(repeat):
        for kind, processes in ((ONE, 1), (MANY, STREAMS)):
            bench.reset("public.worked")
            run_id = uuid.uuid4().hex[:8]
            create(
                CopySpec(
                    source=bench.source_url,
                    target=bench.target_url,
                    table="public.worked",
                    run_id=run_id,
                    strategy="range",
                    partitions=PARTITIONS,
                )
            )
            command = _command(bench, run_id, STREAMS // processes)
            cost = measure(
                bench.source,
                bench.target,
                lambda command=command, processes=processes: together([command] * processes),  # type: ignore[misc]
            )
            bench.check("public.worked", ROWS)
            costs.setdefault(kind, []).append(cost)
            tell(f"turn {turn + 1} of {repeat}, {kind}: {cost.wall:.2f} s")
    return Workers({kind: min(each, key=lambda cost: cost.wall) for kind, each in costs.items()})


def _command(bench: Bench, run_id: str, streams: int) -> Sequence[str]:
    program = str(Path(sys.executable).with_name("penstock"))
    ends = ["--source", bench.source_url, "--target", bench.target_url]
    return [program, "work", run_id, *ends, "--streams", str(streams)]


def together(commands: Sequence[Sequence[str]]) -> float:
    """Run commands at the same time.

    Returns: the CPU seconds of all of them, and of the processes that they waited for.

    Raises:
        CommandFailed: a command failed.
    """
    total = 0.0
    with tempfile.TemporaryFile() as output:
        started = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            for command in commands
        ]
        for process in started:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            total += used.ru_utime + used.ru_stime
        codes = {process.returncode for process in started}
        if codes != {0}:
            output.seek(0)
            text = output.read()[-TAIL:].decode(errors="replace")
            raise CommandFailed(f"{commands[0][0]} ended with {sorted(codes)}\n{text}")
    return total


class Workers:
    def __init__(self, costs: dict[str, Cost]) -> None:
        self._costs = costs

    def show(self) -> None:
        show_table(
            f"{ROWS:,} rows in {PARTITIONS:,} partitions by penstock work: seconds, best",
            ["processes", "wall", "CPU mover", "CPU source", "CPU target"],
            [
                [
                    kind,
                    *(
                        f"{seconds:.1f}"
                        for seconds in (cost.wall, cost.mover, cost.source, cost.target)
                    ),
                ]
                for kind, cost in self._costs.items()
            ],
        )

    def limits(self) -> list[Limit]:
        one, many = self._costs[ONE], self._costs[MANY]
        more = (many.target - one.target) / PARTITIONS * 1000
        return [
            Limit(f"{STREAMS} processes: target CPU more a partition, ms", more, MOST_MS),
            Limit(f"{STREAMS} processes: wall / one process", many.wall / one.wall, MOST_WALL),
        ]

    def as_json(self) -> dict[str, Any]:
        return {kind: vars(cost) for kind, cost in self._costs.items()}
