"""Every block of docs/tasks is run in order, and prints the output shown."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from tests.cli import run_cli

from penstock_testkit import S3Server

TASKS = Path(__file__).resolve().parents[2] / "docs" / "tasks"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Other blocks show what other programs run, or the contents of files.
ASK = "echo $?"
RUN = ("console", "sh", "sql")
SHOP = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, placed date NOT NULL, customer int NOT NULL,"
    " total numeric(12, 2) NOT NULL)",
    # All rows are sampled, so that bounds are the same each time.
    "ALTER TABLE orders ALTER id SET STATISTICS 1000",
    "CREATE INDEX ON orders (placed)",
    "INSERT INTO orders SELECT n, date '2025-01-01' + n % 365, n % 997, n % 1000 + 0.5"
    " FROM generate_series(1, 200000) AS n",
    "VACUUM ANALYZE orders",
)


class Reader:
    """A reader who follows a page.

    Args:
        shop, warehouse: URLs that replace those exported by the page.
        variables: additional environment variables.
    """

    def __init__(self, shop: str, warehouse: str, variables: Mapping[str, str]) -> None:
        self.urls = {"SHOP": shop, "WAREHOUSE": warehouse}
        self.env = {**os.environ, **self.urls, **variables}
        self.code = 0

    def do(self, language: str, block: str) -> None:
        if language == "sql":
            where, _, statements = block.partition("\n")
            with psycopg.connect(self.urls[where.split()[-1]], autocommit=True) as connection:
                connection.execute(statements.encode())
            return
        todo = [*commands(language, block), ("", [])]
        for (command, shown), (after, _) in pairwise(todo):
            printed = self.run(command)
            for line in shown:
                assert any(same_but_varying(line, other) for other in printed), (
                    command,
                    line,
                    printed,
                )
            if after != ASK:
                # If a page shows a failure, it shows its exit code.
                assert command == ASK or self.code == 0, (command, printed)

    def run(self, command: str) -> list[str]:
        """Return the lines that a command prints, with the exit code if the page shows one."""
        if command.startswith(("export ", "pip install ")):
            return []
        if command == ASK:
            return [str(self.code)]
        program, *arguments = shlex.split(command, comments=True)
        assert program == "penstock", command
        done = run_cli(*arguments, env=self.env)
        self.code = done.returncode
        return (done.stderr + done.stdout).splitlines()


def commands(language: str, block: str) -> Iterator[tuple[str, list[str]]]:
    """Return the commands of a block, each with the output shown below it."""
    lines = block.replace("\\\n", " ").splitlines()
    if language == "sh":
        yield from ((line, []) for line in lines if line.strip() and line[0] != "#")
        return
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip() != "...":
            found[-1][1].append(line)
    yield from found


def same_but_varying(line: str, expected: str) -> bool:
    """Whether two lines differ only in times, rates, streams and names of runs."""
    return without_varying(line) == without_varying(expected)


def without_varying(line: str) -> str:
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*", "TIME", line)
    line = re.sub(r"\d\d:\d\d:\d\dZ", "TIME", line)
    line = re.sub(r"[\d,.]+ (s|ms)\b", "N s", line)
    line = re.sub(r"[\d,.]+ (B|kB|MB|GB|rows)/s", "N/s", line)
    line = re.sub(r"\b\d+ streams?\b", "N streams", line)
    line = re.sub(r"\bin N s \(\d+ of", "in N s (n of", line)
    line = re.sub(r"-repair-\w{6}\b", "-repair-N", line)
    return " ".join(line.split())


def of_page(name: str) -> list[tuple[str, str]]:
    text = (TASKS / name).read_text(encoding="utf-8")
    return [(language, body) for language, body in BLOCK.findall(text) if language in RUN]


def prepared(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in SHOP:
            connection.execute(statement.encode())


def follow(page: str, reader: Reader) -> None:
    for language, block in of_page(page):
        reader.do(language, block)


BUCKET = "parquet-from-s3.md"


@pytest.mark.parametrize("page", sorted({path.name for path in TASKS.glob("*.md")} - {BUCKET}))
def test_a_page_shows_actual_output(page: str, source_url: str, target_url: str) -> None:
    prepared(source_url)
    follow(page, Reader(source_url, target_url, {}))


def test_the_page_on_files_shows_actual_output(
    source_url: str, target_url: str, s3_server: S3Server
) -> None:
    prepared(source_url)
    s3_server.create_bucket("lake")
    reader = Reader(source_url, target_url, s3_server.environment)
    months = "--mode replace --strategy time --key placed --interval '1 month'"
    reader.run(
        f"penstock copy --source env:SHOP --table public.orders --target s3://lake/orders/ {months}"
    )
    assert reader.code == 0
    follow(BUCKET, reader)
