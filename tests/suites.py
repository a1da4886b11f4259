"""The split of the tests between `make test` and `make test-slow`.

The slow ones are those of the areas below, and those that `slow_tests.txt` lists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("slow_tests.txt")
CONTRIBUTOR, SLOW, ALL = "contributor", "slow", "all"
_OTHERS = r"(clickhouse|mssql|mysql|snowflake)"
AREAS = {
    "a real Airflow": r"tests/airflow/",
    "a real dagster dev": r"tests/dagster/test_dev\.py",
    "MySQL, SQL Server, Snowflake and ClickHouse": rf"tests/backends/{_OTHERS}/",
    "the contract suite on them": rf"tests/contract/(?!test_pairs).*\[{_OTHERS}\b",
    "pairs without PostgreSQL": r"tests/contract/test_pairs\.py::.*\[(?!.*postgresql)",
}
"""Areas that `make test` leaves out, each with a pattern that matches the start of a test's id."""
_AREAS = re.compile("|".join(AREAS.values()))
_ENTRY = re.compile(r" *(?P<seconds>\d+) (?P<test>\S.*?)(?: except (?P<kept>\[.*\]))?")


class SlowTests:
    """The tests that `make test` leaves out.

    Args:
        lines: those of the list: seconds, and the id of a test, of a function (perhaps except one
            of its cases), or a path.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        found = [match for line in lines if (match := _ENTRY.fullmatch(line.rstrip()))]
        self.seconds = {match["test"]: int(match["seconds"]) for match in found}
        self._kept = {f"{match['test']}{match['kept']}" for match in found if match["kept"]}
        self._files = {test.partition("::")[0] for test in self.seconds}

    def has(self, test: str) -> bool:
        """Whether a test is one of them.

        Args:
            test: its id, relative to the repository.
        """
        if _AREAS.match(test):
            return True
        return test not in self._kept and not self.seconds.keys().isdisjoint(_names_of(test))

    def has_all_of(self, path: str) -> bool:
        """Whether they include every test of a file."""
        return bool(_AREAS.match(path)) or path in self.seconds

    def may_have_one_of(self, path: str) -> bool:
        """Whether they may include a test of a file."""
        # Areas within the contract suite select by the name of the database.
        return self.has_all_of(path) or path in self._files or path.startswith("tests/contract/")


def _names_of(test: str) -> Iterable[str]:
    yield test
    yield test.partition("[")[0]
    yield test.partition("::")[0]


def listed() -> SlowTests:
    """Return the tests of the list."""
    return SlowTests(LIST.read_text().splitlines())


class Selection:
    """A pytest plugin that selects the tests of a suite.

    Args:
        suite: `CONTRIBUTOR` or `SLOW`.
    """

    def __init__(self, suite: str) -> None:
        self._suite = suite
        self._slow = listed()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
            return None
        path = str(PurePosixPath(collection_path.relative_to(ROOT)))
        if self._suite == CONTRIBUTOR:
            return True if self._slow.has_all_of(path) else None
        return None if self._slow.may_have_one_of(path) else True

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left = [item for item in items if self._slow.has(item.nodeid) is (self._suite != SLOW)]
        if left:
            config.hook.pytest_deselected(items=left)
            gone = {id(item) for item in left}
            items[:] = [item for item in items if id(item) not in gone]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._suite == CONTRIBUTOR:
            terminalreporter.section("left out")
            for line in summary(self._slow.seconds):
                terminalreporter.write_line(line)


def summary(slow: Collection[str]) -> list[str]:
    """Return what a run of `make test` leaves out, and how to run it.

    Args:
        slow: the entries of the list.
    """
    return [
        *AREAS,
        f"{len(slow):,} lines of slow tests, in tests/slow_tests.txt",
        "to run all of these: make test-slow; both: make test-all",
    ]
