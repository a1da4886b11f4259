"""The page on many tables: its commands run in order, and print the output shown."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli import run_cli

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

PAGE = Path(__file__).parents[3] / "docs/many-tables.md"
SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, email text NOT NULL)",
    "INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, 5000) AS i",
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, total numeric(12, 2))",
    "INSERT INTO orders SELECT i, i % 5000, i FROM generate_series(1, 20000) AS i",
    "CREATE TABLE rates (currency text, at date, rate numeric)",
    "INSERT INTO rates VALUES ('EUR', '2026-11-25', 1.16)",
    "CREATE VIEW big_orders AS SELECT * FROM orders WHERE total > 1000",
    "ANALYZE customers, orders, rates",
)
CHANGES = (
    "UPDATE orders SET total = total + 1 WHERE id % 1000 = 0",
    "DELETE FROM orders WHERE id <= 10",
)
# Times and sizes, the number of finished partitions, and the number of streams.
VARYING = re.compile(
    r"\d{2}:\d{2}:\d{2}Z|\d{4}-\d{2}-\d{2} [\d:.]+\+\d{2}|[\d.,]+ (?:k?M?B|s)\b|\(\d of \d\)"
    r"|\d streams?"
)


def lines(text: str) -> list[str]:
    return [" ".join(VARYING.sub("~", line).split()) for line in text.splitlines()]


def test_the_page_shows_actual_output(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.source.run(*SHOP)
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, "SHOP": pair.source.url, "WAREHOUSE": pair.target.url}
    page = PAGE.read_text(encoding="utf-8").partition("## The first file")[2]
    ran = []
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for command, shown in re.findall(
            r"^(?:\$ )?(penstock .*)\n((?:(?!\$ |penstock [a-z]).*\n)*)", block, re.MULTILINE
        ):
            if "--tables" in command:
                pair.source.run(*CHANGES)
            done = run_cli(*shlex.split(command)[1:], env=env)
            assert done.returncode == 0, (command, done.stderr)
            output = lines(done.stderr + done.stdout)
            assert [line for line in lines(shown) if line not in output] == [], output
            ran.append(command.split()[1])
    assert ran == ["init", "plan-all", "copy-all", "copy-all", "status", "verify"]
    (file,) = re.findall(r"^```toml\n(# Tables.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert file == (tmp_path / "penstock.toml").read_text(encoding="utf-8")
