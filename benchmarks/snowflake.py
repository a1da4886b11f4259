"""PostgreSQL to Snowflake's stage and tables, compared with Parquet files on this machine.

Snowflake is an emulator, fakesnow behind the testkit's front, whose COPY INTO is DuckDB's work on
the same CPUs. So the mover's own part counts, which ends when a partition's files are on the stage.
"""

from __future__ import annotations

import json
import shlex
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import cost
from benchmarks.bench import Bench, WrongResult
from benchmarks.file_movers import PROGRAM
from benchmarks.report import Limit, show_table, tell
from penstock_testkit import any_snowflake, connect_snowflake, new_snowflake_database

SCHEMA = "snowflake"
TABLE = f"{SCHEMA}.lineitem"
PARTS = 8
FEW = f"{SCHEMA}.few"
_INTO = ("--target-table", "public.lineitem", "--mode", "recreate")
STAGE, FILES = "Snowflake", "Parquet"


@dataclass(frozen=True)
class Turn:
    """The figures of one copy, in seconds.

    Args:
        streams: the sum over all partitions, until their files are in place.
        loads: the sum over all partitions, from the start of COPY INTO to the commit.
        beside: the share of the loading time in which another partition is being staged.
    """

    wall: float
    mover: float
    streams: float
    loads: float
    beside: float


@dataclass(frozen=True)
class Account:
    url: str
    log: Path

    def loads(self) -> list[tuple[float, float]]:
        """Return the start and end of each COPY INTO since the last call."""
        text = self.log.read_text(encoding="ascii") if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return [(float(line.split()[0]), float(line.split()[1])) for line in text.splitlines()]


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> Snowflake:
    """Copy lineitem to both, in turns.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of times that each way is measured.
    """
    tell(f"snowflake: loading lineitem at scale {scale:g}")
    rows, few = bench.load_tpch(SCHEMA, scale), 80
    bench.on_source("CREATE TABLE snowflake.few AS SELECT * FROM snowflake.lineitem LIMIT 80")
    turns: dict[tuple[str, int], list[Turn]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        log = Path(folder, "log")
        with any_snowflake(log) as url:
            account = Account(url, log)
            tell("warming up")
            _to_stage(bench, account, rows, degrees[-1])
            for turn in range(repeat):
                for degree in degrees:
                    for name in (STAGE, FILES)[:: -1 if turn % 2 else 1]:
                        if name == STAGE:
                            found = _to_stage(bench, account, rows, degree)
                        else:
                            found = _to_files(bench, rows, degree)
                        turns.setdefault((name, degree), []).append(found)
                        tell(f"turn {turn + 1} of {repeat}, degree {degree}, {name}: {found}")
            for _ in range(repeat):
                turns.setdefault((STAGE, 0), []).append(_to_stage(bench, account, few, 0))
                turns.setdefault((FILES, 0), []).append(_to_files(bench, few, 0))
    return Snowflake(rows, turns)


def _to_stage(bench: Bench, account: Account, rows: int, degree: int) -> Turn:
    with new_snowflake_database(account.url) as url:
        account.loads()
        found = _copied(bench, degree, ["--target", url, *_INTO], account)
        with closing(connect_snowflake(url)) as connection, connection.cursor() as cursor:
            ((row_count,),) = cursor.execute("SELECT COUNT(*) FROM public.lineitem").fetchall()
    _check(row_count, rows)
    return found


def _to_files(bench: Bench, rows: int, degree: int) -> Turn:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        found = _copied(bench, degree, ["--target", f"{folder}/out/"], None)
        _check(
            sum(pq.read_metadata(path).num_rows for path in Path(folder, "out").glob("*.parquet")),
            rows,
        )
    return found


def _copied(bench: Bench, degree: int, options: Sequence[str], account: Account | None) -> Turn:
    """Copy once, and return the figures.

    Args:
        degree: the number of streams; 0 for the small table, one partition after the other.
    """
    bench.on_source("CHECKPOINT")
    cut = (
        ("--table", TABLE)
        if degree
        else ("--table", FEW, "--strategy", "hash", "--key", "l_orderkey")
    )
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as event_file:
        command = [
            *(PROGRAM, "copy", "--json", "--source", bench.source_url, *cut),
            *("--partitions", str(PARTS), "--degree", str(degree or 1), *options),
        ]
        found = cost.measure(
            None,
            None,
            lambda: cost.run([["sh", "-c", f"exec {shlex.join(command)} > {event_file.name}"]]),
        )
        events = [json.loads(line) for line in event_file]
    return _turn(found, events, account.loads() if account else [])


def _turn(
    costs: cost.Cost, events: Sequence[dict[str, Any]], loads: list[tuple[float, float]]
) -> Turn:
    def times(name: str) -> list[float]:
        return [
            datetime.fromisoformat(event["at"]).timestamp()
            for event in events
            if event["event"] == name
        ]

    opened, committed = times("opened"), times("committed")
    load_starts = [begin for begin, _ in loads]
    # Each partition's own load need not be known, because the sums are the same.
    loading = sum(committed) - sum(load_starts) if load_starts else 0.0
    # The number of active partitions, and of loading ones, changes at these moments.
    moments = sorted({*opened, *committed, *load_starts})
    either = both = 0.0
    for since, until in pairwise(moments):
        done = sum(at <= since for at in committed)
        under_way = sum(at <= since for at in opened) - done
        loaded = sum(at <= since for at in load_starts) - done if load_starts else 0
        if loaded > 0:
            either += until - since
            both += until - since if under_way > loaded else 0.0
    streams = sum(committed) - sum(opened) - loading
    return Turn(costs.wall, costs.mover, streams, loading, both / either if either else 0.0)


def _check(found_rows: int, rows: int) -> None:
    if found_rows != rows:
        raise WrongResult(f"expected {rows:,} rows, found {found_rows:,}")


class Snowflake:
    """The figures of all copies.

    Args:
        turns: the copies by target and degree; degree 0 stands for the small table in as many
            partitions.
    """

    def __init__(self, rows: int, turns: dict[tuple[str, int], list[Turn]]) -> None:
        self._rows = rows
        self._turns = turns
        self._degrees = sorted({degree for _, degree in turns} - {0})

    def _best(self, name: str, degree: int, what: str) -> float:
        figures: list[float] = [getattr(turn, what) for turn in self._turns[name, degree]]
        return min(figures)

    def _beside(self, degree: int) -> float:
        return statistics.median(turn.beside for turn in self._turns[STAGE, degree])

    def _ratio(self, degree: int, what: str) -> float:
        """Return the ratio without the fixed costs of a copy and its partitions."""
        mine, files = (
            self._best(name, degree, what) - self._best(name, 0, what) for name in (STAGE, FILES)
        )
        return mine / files

    def show(self) -> None:
        lines = []
        for name, degree in sorted(self._turns, key=lambda item: item[1]):
            figures = [
                self._best(name, degree, what) for what in ("wall", "mover", "streams", "loads")
            ]
            mine = ["", "", ""]
            if name == STAGE and degree:
                mine = [f"{self._ratio(degree, what):.2f}" for what in ("streams", "mover")]
                mine.append(f"{self._beside(degree):.0%}")
            lines.append(
                [str(degree or "few rows"), name, *(f"{figure:.2f}" for figure in figures), *mine]
            )
        columns = ["degree", "target", "wall", "CPU mover", "streams", "COPY INTO"]
        show_table(
            f"lineitem, PostgreSQL to Snowflake (an emulator) and to Parquet files, "
            f"{self._rows:,} rows in {PARTS} partitions: seconds, best of "
            f"{len(self._turns[STAGE, 0])}",
            [*columns, "streams / Parquet", "CPU / Parquet", "COPY INTO beside a stream"],
            lines,
        )

    def limits(self) -> list[Limit]:
        first, last = self._degrees[0], self._degrees[-1]
        found = [
            Limit(f"Snowflake in: {label} / Parquet, degree {first}", self._ratio(first, what), 1.3)
            for label, what in (("streams", "streams"), ("CPU mover", "mover"))
        ]
        if last > 1:
            name = f"Snowflake in: COPY INTO without a stream beside it, degree {last}"
            found.append(Limit(name, 1 - self._beside(last), 0.6))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "turns": [
                {"target": name, "degree": degree, "turns": [asdict(turn) for turn in turns]}
                for (name, degree), turns in self._turns.items()
            ],
        }
