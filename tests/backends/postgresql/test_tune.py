"""`penstock tune` on real servers: it measures, and leaves everything as it was."""

from __future__ import annotations

import json
import signal
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import PlanningError, RunFailed, Tuning, UsageError, tune
from penstock.tuning.measurements import Measurement
from penstock.tuning.sweep import Sweep, SweepNote, SweepStarted, plan_sweep
from penstock_testkit.statistics import settle_statistics

from ...cli import Cli

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

ROWS = 20_000
# Small tables in many partitions, so that there is something to measure within a second.
SMALL: dict[str, Any] = {"partitions": "128kB"}


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (n int PRIMARY KEY, pad text)", "CREATE INDEX t_pad ON t (pad)")
    pair.source.run(
        f"INSERT INTO t SELECT n, repeat(md5(n::text), 10) FROM generate_series(1, {ROWS}) AS n",
        "VACUUM ANALYZE t",
    )
    pair.target.run("INSERT INTO t VALUES (-1, 'mine')")
    return pair


def new_schemas(pair: Pair) -> list[str]:
    """Return the target's additional schemas."""
    found = pair.target.rows(
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' "
        "AND nspname NOT IN ('public', 'information_schema') ORDER BY 1"
    )
    return [name for (name,) in found]


def touched(pair: Pair) -> list[tuple[Any, ...]]:
    """Return the target's write statistics and rows."""
    settle_statistics(pair.target.connection)
    return [
        *pair.target.rows(
            "SELECT s.relname, n_tup_ins, n_tup_upd, n_tup_del, relfilenode "
            "FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = relid "
            "WHERE schemaname = 'public' ORDER BY 1"
        ),
        *pair.target.rows("SELECT * FROM t"),
        *pair.target.rows(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE "
            "indrelid = 't'::regclass ORDER BY 1"
        ),
    ]


def test_each_setting_is_measured_and_the_target_left_alone(filled: Pair) -> None:
    before = touched(filled)
    seen = list(
        tune(
            filled.spec(mode="truncate", **SMALL),
            degrees=(1, 2),
            options=("unlogged", "deferred"),
            sample=1 << 20,
        )
    )
    result = seen[-1]
    assert isinstance(result, Tuning)
    assert [str(each.setting) for each in result.figures] == [
        f"degree {degree}{options}"
        for options in ("", ", deferred", ", unlogged", ", unlogged, deferred")
        for degree in (1, 2)
    ]
    measured = [each for each in seen if isinstance(each, Measurement)]
    # Always the same rows, fewer than the table has.
    (rows,) = {each.rows for each in measured}
    assert any("use a larger --sample" in remark for remark in result.remarks)
    assert 0 < rows < ROWS
    assert rows == pytest.approx(ROWS * result.partitions / result.of_partitions, rel=0.1)
    for each in measured:
        assert each.bytes > 0
        assert each.seconds > 0
        assert each.spent.total > 0
        # Building indexes and setting the table logged count towards the time.
        assert (each.steps > 0) == bool(each.setting.options)
    assert touched(filled) == before
    assert new_schemas(filled) == []


@pytest.mark.parametrize("mode", ["append", "recreate", "swap"])
def test_other_modes(filled: Pair, mode: str) -> None:
    before = touched(filled)
    *_, result = tune(filled.spec(mode=mode, **SMALL), degrees=(2,), sample=1 << 20)
    assert isinstance(result, Tuning)
    assert result.mode == mode
    assert touched(filled) == before
    assert new_schemas(filled) == []


def test_the_scratch_table_is_like_the_target(filled: Pair) -> None:
    filled.target.run(
        "ALTER TABLE t SET (fillfactor = 50)",
        "CREATE TABLE other (n int)",
        "ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES t (n)",
    )
    events = tune(filled.spec(**SMALL), degrees=(2,), sample=1 << 20)
    for each in events:
        if isinstance(each, SweepStarted) and each.number == 1:
            break
    (schema,) = new_schemas(filled)
    # The first one is loaded.
    table = f"{schema}.scratch_table"
    assert filled.target.count(table) > 0
    assert filled.target.value(
        f"SELECT reloptions FROM pg_class WHERE oid = '{table}'::regclass"
    ) == ["fillfactor=50"]
    assert (
        filled.target.value(f"SELECT count(*) FROM pg_index WHERE indrelid = '{table}'::regclass")
        == 2
    )
    events.close()
    assert new_schemas(filled) == []


def test_files_as_source(filled: Pair, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    filled.copy(target=lake, target_table=None, mode="append", partitions=6)
    spec = filled.spec(None, source=lake, target_table="public.t", mode="truncate", partitions=6)
    before = touched(filled)
    *_, result = tune(spec, degrees=(1, 2), sample=1 << 20)
    assert isinstance(result, Tuning)
    assert len(result.figures) == 2
    assert touched(filled) == before
    assert new_schemas(filled) == []


def test_a_dry_run_shows_the_plan(filled: Pair) -> None:
    before = touched(filled)
    sweep = plan_sweep(filled.spec(**SMALL), degrees=(1, 2), sample=1 << 20, repeat=3)
    assert sweep.copies == 7
    assert 0 < sweep.sampled_bytes < (sweep.plan.bytes or 0)
    shown = filled.cli(
        "tune", *filled.ends, "--table", "t", "--partitions", "128kB", "--sample", "1MB",
        "--degrees", "1,2", "--plan",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "3, the first of which is not counted" in shown.stdout
    assert touched(filled) == before
    assert new_schemas(filled) == []


def test_the_command_line_and_the_copy_it_recommends(filled: Pair, tmp_path: Path) -> None:
    out, html = tmp_path / "tuned.toml", tmp_path / "tuned.html"
    options = ["--table", "t", "--mode", "truncate", "--partitions", "128kB"]
    shown = filled.cli(
        "tune", *filled.ends, *options, "--sample", "1MB", "--degrees", "3", "--with",
        "deferred", "--out", str(out), "--html", str(html), "--json",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert len(result["figures"]) == 2
    assert result["figures"][0]["seconds"] == result["figures"][0]["copies"][0]["seconds"]
    for each in result["figures"]:
        assert each["copies"][0]["cpu"] > 0
    assert "<svg" in html.read_text(encoding="utf-8")
    tuned = tomllib.loads(out.read_text(encoding="utf-8"))
    assert (tuned["table"], tuned["degree"]) == ("public.t", 3)
    copied = filled.cli("copy", *filled.ends, *options, "--tuned", str(out))
    assert copied.returncode == 0, copied.stderr
    assert "3 streams" in copied.stdout
    filled.assert_same()
    refused = filled.cli("copy", *filled.ends, "--table", "u", "--tuned", str(out))
    assert refused.returncode == 64
    assert "measured for another table: expected --table u, found public.t" in refused.stderr


def test_refused_without_the_right_to_create_a_schema(filled: Pair) -> None:
    filled.target.run("CREATE ROLE loader LOGIN PASSWORD 'pw'")
    try:
        filled.target.run("GRANT ALL ON t TO loader")
        url = psycopg.conninfo.make_conninfo(filled.target.url, user="loader", password="pw")
        info = psycopg.conninfo.conninfo_to_dict(url)
        target = (
            f"postgresql://loader:pw@{info['host']}:{info.get('port', 5432)}/{info['dbname']}"
            if not str(info["host"]).startswith("/")
            else f"postgresql://loader:pw@/{info['dbname']}?host={info['host']}"
            f"&port={info.get('port', 5432)}"
        )
        with pytest.raises(PlanningError, match="GRANT CREATE ON DATABASE"):
            next(tune(filled.spec(target=target, **SMALL)))
        assert new_schemas(filled) == []
    finally:
        filled.target.run("DROP OWNED BY loader", "DROP ROLE loader")


def test_refused_if_subscribers_would_receive_its_rows(filled: Pair) -> None:
    filled.target.run("CREATE PUBLICATION everything FOR ALL TABLES")
    with pytest.raises(PlanningError, match="publication 'everything' of the target"):
        next(tune(filled.spec(**SMALL)))
    assert new_schemas(filled) == []


def test_refused_if_a_scratch_table_would_prove_nothing(filled: Pair) -> None:
    with pytest.raises(UsageError, match="found upsert"):
        next(tune(filled.spec(mode="upsert")))
    with pytest.raises(UsageError, match="--unlogged: expected --mode truncate"):
        next(tune(filled.spec(), options=("unlogged",)))
    with pytest.raises(UsageError, match="--strategy hash reads the whole table"):
        next(tune(filled.spec(strategy="hash", key="n")))
    with pytest.raises(PlanningError, match="a single partition"):
        next(tune(filled.spec()))
    assert new_schemas(filled) == []


def test_errors_leave_no_scratch_schema(filled: Pair) -> None:
    filled.target.run("ALTER TABLE t ADD CHECK (n < 0)")
    with pytest.raises(RunFailed, match=r"degree 2: .*t_n_check"):
        list(tune(filled.spec(attempts=1, **SMALL), degrees=(2,), sample=1 << 20))
    assert new_schemas(filled) == []


@pytest.fixture
def slow(filled: Pair) -> Iterator[Cli]:
    """A tune in progress, which would take minutes."""
    with tempfile.TemporaryFile() as stderr:
        process = Cli(
            ["tune", *filled.ends, "--table", "t", "--partitions", "128kB",
             "--degrees", "2", "--max-rate", "20kB"],
            stderr=stderr,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while not filled.target.rows(
                "SELECT FROM pg_stat_activity WHERE application_name LIKE 'penstock:tune-0:p%'"
            ):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process
        finally:
            process.kill()
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()


def test_an_interrupted_tune_leaves_no_scratch_schema(filled: Pair, slow: Cli) -> None:
    before = touched(filled)
    assert len(new_schemas(filled)) == 1
    slow.send_signal(signal.SIGINT)
    assert slow.wait(30) == 130
    assert new_schemas(filled) == []
    assert touched(filled) == before


def test_leftovers_of_a_killed_tune_are_dropped_by_the_next(filled: Pair, slow: Cli) -> None:
    (dead,) = new_schemas(filled)
    # The schema of a running tune is left alone, as is one that only has a similar name.
    filled.target.run("CREATE SCHEMA penstock_tune_0123abcd")
    mine = ["penstock_tune_0123abcd"]
    first = list(tune(filled.spec(**SMALL), degrees=(2,), sample=1 << 20))
    assert not [
        each for each in first if isinstance(each, SweepNote) and each.text.startswith("dropped")
    ]
    assert new_schemas(filled) == sorted([dead, *mine])
    slow.kill()
    slow.wait(30)
    assert new_schemas(filled) == sorted([dead, *mine])
    events = tune(filled.spec(**SMALL), degrees=(2,), sample=1 << 20)
    swept = next(events)
    assert isinstance(swept, SweepNote)
    assert dead in swept.text
    assert isinstance(next(events), Sweep)
    assert new_schemas(filled) == mine
    events.close()
    assert new_schemas(filled) == mine
