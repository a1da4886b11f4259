"""The command line meets people half-way: names that are nearly right, runs that are done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pytest

from penstock import status

from ...cli import run_cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.backends.conftest import Pair

ENDS = ["--source", "env:SHOP", "--target", "env:DW"]
LONG = "a table whose name is as long as PostgreSQL allows, or nearly"
NIGHT = ["--mode", "upsert", "--incremental", "xmin"]


@pytest.fixture
def shop(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    pair.source.run(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "INSERT INTO orders SELECT generate_series(1, 10)",
        "CREATE TABLE customers (id int PRIMARY KEY)",
        f'CREATE TABLE "{LONG}" (id int PRIMARY KEY)',
    )
    monkeypatch.setenv("SHOP", pair.source.url)
    monkeypatch.setenv("DW", pair.target.url)
    # The width of a pipe is that of nobody's screen.
    monkeypatch.setenv("COLUMNS", "60")
    return pair


def cli(*words: str, code: int = 0) -> CompletedProcess[str]:
    ended = run_cli(*words, env=dict(os.environ))
    assert ended.returncode == code, ended.stderr
    return ended


def copy(table: str, *words: str) -> None:
    cli("copy", *ENDS, "--table", table, *words)


class TestNearNames:
    @pytest.mark.parametrize(
        ("table", "suggestion"),
        [
            ("public.ordrs", "did you mean public.orders?"),
            ("pubic.orders", "did you mean public.orders?"),
            ("public.ORDERS", "did you mean public.orders?"),
            ("ordrs", "did you mean orders?"),
        ],
    )
    def test_of_a_table(self, shop: Pair, table: str, suggestion: str) -> None:
        ended = run_cli("plan", *ENDS, "--table", table)
        assert suggestion in ended.stderr
        assert "customers" not in ended.stderr

    def test_of_tables_of_a_batch(self, shop: Pair) -> None:
        ended = cli("plan-all", *ENDS, "--tables", "public.ordrs", code=64)
        assert "did you mean public.orders?" in ended.stderr
        ended = cli("init", "-", *ENDS, "--tables", "public.ordrs", code=64)
        assert "did you mean public.orders?" in ended.stderr

    def test_is_not_any_name(self, shop: Pair) -> None:
        ended = run_cli("plan", *ENDS, "--table", "public.xyz")
        assert "does not exist" in ended.stderr
        assert "did you mean" not in ended.stderr


class TestNames:
    def test_are_whole_in_a_pipe(self, shop: Pair) -> None:
        name = f"public.{LONG}"
        copy(name, *NIGHT, "--target-table", "public.copy of it", "--run-id", "r")
        assert f"{name} to public.copy of it " in cli("runs", "--target", "env:DW").stdout
        assert name in cli("runs", "--target", "env:DW", "--table", name).stdout
        listed = cli("watermark", "list", "--target", "env:DW").stdout
        assert f"{name} to public.copy of it " in listed

    def test_of_watermarks_are_found_as_they_are_printed(self, shop: Pair) -> None:
        copy("public.orders", *NIGHT)
        copy("public.customers", *NIGHT)
        whole = "public.orders to public.orders"
        for name in (whole, "public.orders", "public.o….orders"):
            shown = cli("watermark", "show", name, "--target", "env:DW").stdout
            assert shown.startswith(f"{whole}\n"), name
        shown = cli("watermark", "show", *whole.split(), "--target", "env:DW").stdout
        assert shown.startswith(f"{whole}\n")
        cli("watermark", "reset", "public.orders", "--target", "env:DW")
        shown = cli("watermark", "show", whole, "--target", "env:DW").stdout
        assert "reset" in shown.splitlines()[2]

    def test_of_watermarks_may_mean_several(self, shop: Pair) -> None:
        copy("public.orders", *NIGHT)
        copy("public.orders", *NIGHT, "--target-table", "public.others")
        ended = cli("watermark", "show", "public.orders", "--target", "env:DW", code=64)
        assert "may be one of 'public.orders to public.orders', " in ended.stderr
        assert cli("watermark", "show", "public.others", "--target", "env:DW").stdout
        ended = cli("watermark", "show", "public.othrs", "--target", "env:DW", code=64)
        assert "did you mean public.others?" in ended.stderr


class TestAFinishedRun:
    def test_is_left_as_it_is_when_repeated(self, shop: Pair) -> None:
        words = ["copy", *ENDS, "--table", "public.orders", "--run-id", "r"]
        cli(*words)
        before = status("r", target=shop.target.url).run
        again = cli(*words)
        assert again.stdout == ""
        (line,) = again.stderr.splitlines()
        assert line.endswith("run r was done before: nothing is left to do")
        resumed = cli("resume", "r", "--target", "env:DW")
        assert resumed.stderr.splitlines()[0].endswith("nothing is left to do")
        after = status("r", target=shop.target.url).run
        assert after == before
        assert shop.target.count("orders") == 10

    def test_is_changed_if_a_partition_is_copied_again(self, shop: Pair) -> None:
        cli("copy", *ENDS, "--table", "public.orders", "--run-id", "r")
        before = status("r", target=shop.target.url).run
        words = ["--only", "p0001", "--recopy", "--as-of-now"]
        assert "run r done" in cli("resume", "r", "--target", "env:DW", *words).stdout
        after = status("r", target=shop.target.url).run
        assert before.finished_at is not None
        assert after.finished_at is not None
        assert after.finished_at > before.finished_at


class TestResume:
    def test_reads_from_the_variable_that_the_run_records(self, shop: Pair) -> None:
        cli("create", *ENDS, "--table", "public.orders", "--run-id", "r")
        cli("resume", "r", "--target", "env:DW")
        assert shop.target.count("orders") == 10
        assert "verified" in cli("verify", "r", "--target", "env:DW").stdout

    def test_reads_from_the_file_that_the_run_records(self, shop: Pair, tmp_path: Path) -> None:
        shown = ""
        files = {end: tmp_path / f"{end}.toml" for end in ("source", "target")}
        ends = [word for end in files for word in (f"--{end}", f"file:{files[end]}")]
        for end, url in zip(files, (shop.source.url, shop.target.url), strict=True):
            files[end].write_text(f"{url}\n")
        cli("create", *ends, "--table", "public.orders", "--run-id", "r")
        # A file is read when a command needs it: a secret may have been exchanged.
        files["source"].write_text(f"{shop.source.url}?application_name=exchanged")
        for words in (["resume", "r"], ["verify", "r"], ["status", "r"], ["runs"]):
            shown += cli(*words, *ends[2:]).stdout
        assert shop.target.count("orders") == 10
        assert f"file:{files['source']}" in shown
        assert shop.source.url not in shown
        files["source"].unlink()
        ended = cli("verify", "r", *ends[2:], code=64)
        assert f"--source: {files['source']}: expected a file that holds a URL" in ended.stderr

    def test_of_a_batch_does_so_too(self, shop: Pair) -> None:
        words = ["--tables", "public.orders", "public.customers", "--run-id", "b"]
        cli("copy-all", *ENDS, *words)
        shop.target.run("DROP TABLE customers")
        ended = run_cli("resume", "b", "--target", "env:DW")
        assert "--source" not in ended.stderr

    def test_asks_for_a_source_that_is_not_recorded(self, shop: Pair) -> None:
        ends = ["--source", shop.source.url, "--target", "env:DW"]
        cli("create", *ends, "--table", "public.orders", "--run-id", "r")
        ended = cli("resume", "r", "--target", "env:DW", code=64)
        assert "expected --source: run r was begun with postgresql://" in ended.stderr
        ended = cli("resume", "none", "--target", "env:DW", code=64)
        assert "run 'none' is not in" in ended.stderr


class TestQuiet:
    def test_shows_nothing_if_all_is_well(self, shop: Pair) -> None:
        shop.target.run("CREATE TABLE orders (id int PRIMARY KEY)")
        for flag in ("-q", "--quiet"):
            ended = cli("copy", *ENDS, "--table", "public.orders", "--mode", "truncate", flag)
            assert (ended.stdout, ended.stderr) == ("", "")
        words = ["--tables", "public.orders", "--mode", "truncate", "-q"]
        ended = cli("copy-all", *ENDS, *words)
        assert (ended.stdout, ended.stderr) == ("", "")

    def test_shows_warnings_and_errors(self, shop: Pair) -> None:
        ended = cli("copy", *ENDS, "--table", "public.orders", "-q")
        assert ended.stdout == ""
        (line,) = ended.stderr.splitlines()
        assert "warning: missing in the target, and created there: table public.orders" in line
        ended = run_cli("copy", *ENDS, "--table", "public.orders", "-q")
        assert ended.returncode == 65
        assert "duplicate key" in ended.stderr
        assert "failed" in ended.stdout


def as_user(url: str, user: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{host}"))


@pytest.fixture
def reader(shop: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A user who may connect, and nothing else."""
    name = f"reader_{os.urandom(4).hex()}"
    for side, variable in ((shop.source, "SHOP_READER"), (shop.target, "DW_READER")):
        side.run(f"DO $$BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN END$$")
        monkeypatch.setenv(variable, as_user(side.url, name))
    yield name
    for side in (shop.source, shop.target):
        side.run(f"DROP OWNED BY {name}")
    for side in (shop.source, shop.target):
        side.run(f"DROP ROLE IF EXISTS {name}")


class TestAUserWhoMayNotRead:
    def test_is_told_to_get_select_on_the_source(self, shop: Pair, reader: str) -> None:
        ends = ["--source", "env:SHOP_READER", "--target", "env:DW"]
        ended = cli("plan", *ends, "--table", "public.orders", code=65)
        assert "GRANT the user SELECT on the table" in ended.stderr
        shop.source.run(f"GRANT SELECT ON orders TO {reader}")
        cli("plan", *ends, "--table", "public.orders")

    def test_is_told_to_get_select_to_look_at_runs(self, shop: Pair, reader: str) -> None:
        copy("public.orders")
        ended = cli("runs", "--target", "env:DW_READER", code=65)
        grants = f'GRANT SELECT ON ALL TABLES IN SCHEMA "penstock" TO "{reader}" to look at runs'
        assert grants in ended.stderr
        shop.target.run(
            f"GRANT USAGE ON SCHEMA penstock TO {reader}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA penstock TO {reader}",
        )
        assert "public.orders" in cli("runs", "--target", "env:DW_READER").stdout

    def test_is_told_what_moving_a_watermark_takes(self, shop: Pair, reader: str) -> None:
        ended = cli("watermark", "reset", "public.orders", "--target", "env:DW", code=64)
        assert "no watermark 'public.orders': no copy with --incremental" in ended.stderr
        copy("public.orders", "--mode", "upsert", "--incremental", "id", "--lookback", "0")
        shop.target.run(
            f"GRANT USAGE ON SCHEMA penstock TO {reader}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA penstock TO {reader}",
        )
        reset = ("watermark", "reset", "public.orders", "--target", "env:DW_READER")
        ended = cli(*reset, code=65)
        grant = 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "penstock"'
        assert f'{grant} TO "{reader}"' in ended.stderr
        shop.target.run(f"{grant} TO {reader}")
        cli(*reset)
