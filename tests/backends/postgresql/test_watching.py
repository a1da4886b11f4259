"""A run as others watch it: its log as JSON, its metrics in a file, and its spans."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ...cli import run_cli

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.backends.conftest import Pair

ENDS = ["--source", "env:SHOP", "--target", "env:DW"]
NEVER = ["--show-values", "never"]


@pytest.fixture
def shop(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    pair.source.run(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "INSERT INTO orders SELECT generate_series(1, 1000)",
        "CREATE TABLE customers (id int PRIMARY KEY, name text)",
        "INSERT INTO customers VALUES (1, 'Ada Lovelace')",
    )
    monkeypatch.setenv("SHOP", pair.source.url)
    monkeypatch.setenv("DW", pair.target.url)
    return pair


def cli(*words: str, code: int = 0, **variables: str) -> CompletedProcess[str]:
    ended = run_cli(*words, env={**os.environ, **variables})
    assert ended.returncode == code, ended.stderr
    return ended


class TestLog:
    def log(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        ended = cli(*words, "--log-format", "json", code=code)
        assert ended.stdout == ""
        return [json.loads(line) for line in ended.stderr.splitlines()]

    def test_of_a_table_is_all_json(self, shop: Pair) -> None:
        lines = self.log(
            "copy", *ENDS, "--table", "orders", "--partitions", "4", "--strategy", "range"
        )
        committed = [line for line in lines if line.get("event") == "committed"]
        assert sum(line["rows"] for line in committed) == 1000
        assert {line["partition"] for line in committed} == {f"p000{n}" for n in range(1, 5)}
        assert {line["table"] for line in committed} == {"public.orders"}
        (end,) = [line for line in lines if line.get("event") == "finished"]
        assert (end["status"], end["rows"], end["level"]) == ("done", 1000, "info")
        assert len({line["run_id"] for line in lines}) == 1

    def test_of_tables_names_each(self, shop: Pair) -> None:
        lines = self.log("copy-all", *ENDS, "--tables", "public.*", "--run-id", "b")
        ends = {line["table"]: line for line in lines if line.get("event") == "finished"}
        assert ends.keys() == {"public.orders", "public.customers"}
        assert {line["batch_id"] for line in ends.values()} == {"b"}
        assert (lines[-1]["event"], lines[-1]["run_id"]) == ("batch_finished", "b")

    def test_of_a_failure_has_neither_rows_nor_a_report(self, shop: Pair) -> None:
        shop.target.run("CREATE TABLE customers (id int, name text CHECK (length(name) < 5))")
        lines = self.log("copy", *ENDS, "--table", "customers", "--mode", "append", *NEVER, code=65)
        failed = [line for line in lines if line["level"] == "error"]
        assert {line.get("error") for line in failed} & {"PermanentError"}
        assert any(line.get("code") == "23514" for line in failed)
        assert "Lovelace" not in json.dumps(lines)
        assert "continue with: penstock resume" in lines[-1]["message"]

    def test_says_that_a_connection_failed(self, shop: Pair) -> None:
        ended = run_cli(
            *("plan", *ENDS, "--table", "orders", "--log-format", "json"),
            env={**os.environ, "SHOP": "postgresql://nobody:s3cr3t@localhost:1/none"},
        )
        assert ended.returncode != 0
        (line,) = [json.loads(line) for line in ended.stderr.splitlines()]
        assert line["level"] == "error"
        assert "s3cr3t" not in ended.stderr

    def test_beside_events_has_no_second_log(self, shop: Pair) -> None:
        ended = cli("copy", *ENDS, "--table", "orders", "--json", "--log-format", "json")
        assert ended.stderr == ""
        assert json.loads(ended.stdout.splitlines()[-1])["event"] == "finished"
