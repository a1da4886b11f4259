"""Whatever a system's capabilities leave out is refused, and nothing is changed: of every mode,
strategy and option, on real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.backends.api.backend import Backend
from penstock.backends.api.capabilities import SOURCE_OPTIONS, TARGET_OPTIONS
from penstock.backends.api.registry import find_backend
from penstock.errors import PlanningError, UsageError
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES, RECREATE, Mode
from penstock.spec.option_values import flag_of
from penstock.spec.strategies import STRATEGIES

from .checking import ROWS
from .conftest import NAMES, Pair
from .ends import DuckEnd, FilesEnd, PostgresEnd

if TYPE_CHECKING:
    from .ends import End

SCHEMES = {"postgresql": "postgresql", "duckdb": "duckdb", "parquet": "file"}
# A source that can be read in every way that these tests ask for, and a target likewise.
OTHER = {"postgresql": "parquet", "duckdb": "parquet", "parquet": "duckdb"}
GIVEN: dict[str, Any] = {
    "descendants": "exclude",
    "partitioning": True,
    "conflict_columns": ("id",),
    "indexes": "defer",
    "unlogged": True,
    "types": ("id=bigint",),
    "partition_by": ("grp",),
    "file_size": 1_000_000,
    "row_group_size": 1000,
    "compression": "zstd",
}
# Refused by their values: with others every target takes them.
VALUED = ("indexes",)


@dataclass(frozen=True)
class Case:
    """A system, options that it does not support, and what the refusal names."""

    name: str
    options: Mapping[str, Any]
    named: str

    def __str__(self) -> str:
        return f"{self.name} {self.named}"


def backend(name: str) -> Backend:
    found, _ = find_backend(f"{SCHEMES[name]}://", "--source")
    return found


def source_cases() -> Iterator[Case]:
    for name in NAMES:
        source = backend(name).source_capabilities
        for asked, strategy in STRATEGIES.items():
            if strategy not in source.strategies:
                key = {"key": "id"} if strategy.requires_key else {}
                yield Case(name, {"strategy": asked, **key}, f"--strategy {asked}")
        for option in SOURCE_OPTIONS:
            if option not in source.options:
                asks = {"mode": str(RECREATE), option: GIVEN[option]}
                yield Case(name, asks, flag_of(option))
        if not source.shared_snapshots:
            yield Case(name, {"snapshot": "shared"}, "--snapshot shared")


def target_cases() -> Iterator[Case]:
    for name in NAMES:
        target = backend(name).target_capabilities
        for mode in MODES.values():
            if mode not in target.modes:
                yield Case(name, {"mode": str(mode)}, f"--mode {mode}")
        for option in TARGET_OPTIONS:
            asks = {mode: asked_with(option, mode) for mode in target.modes}
            written = f"{flag_of(option)} {GIVEN[option]}" if option in VALUED else flag_of(option)
            some = [mode for mode in target.modes if is_request(asks[mode])]
            if option in target.options:
                for mode in some:
                    if mode not in target.options[option]:
                        yield Case(name, asks[mode], f"{written} with --mode {mode}")
            elif some:  # else it goes with no mode that the target has
                yield Case(name, asks[some[0]], written)


def asked_with(option: str, mode: Mode) -> dict[str, Any]:
    key = {"key": "id"} if mode.deletes_by_partition else {}
    return {"mode": str(mode), "allow_ddl": True, **key, option: GIVEN[option]}


def is_request(options: Mapping[str, Any]) -> bool:
    """Whether it may be asked for at all, of whichever systems."""
    try:
        CopySpec(source="x://a", target="x://b", table="a.b", **options)
    except UsageError:
        return False
    return True


def content(end: End) -> Any:
    """All that is there, Penstock's own records too."""
    if isinstance(end, PostgresEnd):
        with psycopg.connect(end.url) as connection:
            relations = connection.execute(
                "SELECT relnamespace::regnamespace::text, relname, relfilenode FROM pg_class"
                " WHERE relnamespace::regnamespace::text !~ '^pg_|^information' ORDER BY 1, 2"
            ).fetchall()
        return relations, end.read()
    if isinstance(end, DuckEnd):
        beside = end.path.parent.glob(end.path.name + "*")
        return [(path.name, path.read_bytes()) for path in beside]
    assert isinstance(end, FilesEnd)
    return sorted(map(str, end.folder.rglob("*")))


def check_refused(pair: Pair, system: str, case: Case) -> None:
    pair.mine.fill(ROWS)
    pair.theirs.make(ROWS, key="id")
    before = content(pair.theirs)
    with pytest.raises(PlanningError) as caught:
        pair.copy(**case.options)
    found = caught.value.message
    assert found.startswith(f"{system} does not support {case.named}; it supports "), found
    assert content(pair.theirs) == before


@pytest.mark.parametrize("case", list(source_cases()), ids=str)
def test_of_a_source(make_end: Callable[[str], End], case: Case) -> None:
    pair = Pair(make_end(case.name), make_end(OTHER[case.name]))
    system = backend(case.name).source_capabilities.system
    check_refused(pair, f"{system} as a source", case)


@pytest.mark.parametrize("case", list(target_cases()), ids=str)
def test_of_a_target(make_end: Callable[[str], End], case: Case) -> None:
    # Else the source would be what refuses.
    mine = "postgresql" if "partitioning" in case.options else OTHER[case.name]
    pair = Pair(make_end(mine), make_end(case.name))
    system = backend(case.name).target_capabilities.system
    check_refused(pair, f"{system} as a target", case)


def test_between_ends_of_one_system(make_end: Callable[[str], End]) -> None:
    checked = 0
    for name in NAMES:
        target = backend(name).target_capabilities
        for option in target.from_unlike_only:
            pair = Pair(make_end(name), make_end(name))
            asks = {"mode": str(RECREATE), option: GIVEN[option]}
            case = Case(name, asks, f"{flag_of(option)} from {target.system}")
            check_refused(pair, f"{target.system} as a target", case)
            checked += 1
    assert checked
