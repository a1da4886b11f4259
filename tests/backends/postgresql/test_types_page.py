"""docs/types.md against real servers: each of its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import PlanningError
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.statements import FORMATS
from penstock.backends.postgresql.target import PostgresTarget
from penstock.planning.build import match_columns

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

    from penstock import CopySpec

PAGE = (Path(__file__).parents[3] / "docs" / "types.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def _table(section: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


def _named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _lines() -> Iterator[tuple[str, str, str, str, str]]:
    """Source, target, cast, stream, and what is said besides."""
    for types, stream, because in _table("The same type on both sides"):
        for type_ in _named(types):
            yield type_, type_, "text" if "cast to text" in because else "", stream, because
    for source, target, stream, warning in _table("A narrower type of the same kind"):
        yield _named(source)[0], _named(target)[0], "", stream, warning
    for source, target, cast, stream, warning in _table("Another type"):
        yield _named(source)[0], _named(target)[0], "".join(_named(cast)), stream, warning


def test_every_line(pair: Pair) -> None:
    (statements,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    (extensions,) = re.findall(r"and the extensions (.+?):", PAGE, re.DOTALL)
    # So that no object id is the same on both sides.
    pair.target.run(*(f"CREATE TYPE burnt_{number} AS ENUM ()" for number in range(20)))
    pair.both(*(f"CREATE EXTENSION {name}" for name in _named(extensions)), statements)
    lines = list(_lines())
    assert len(lines) > 130
    source = PostgresSource(pair.source.url)
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        for number, (mine, theirs, cast, stream, besides) in enumerate(lines):
            pair.source.run(f"CREATE TABLE t{number} (a {mine})")
            pair.target.run(f"CREATE TABLE t{number} (a {theirs})")
            found = _found(pair.spec(f"public.t{number}"), source, target)
            assert found[:2] == (stream, cast), (mine, theirs, found)
            if stream != "text" or besides == "travels by name":  # else it says more than the plan
                assert besides in found[2], (mine, theirs, found)
            if not besides:
                assert found[2] == "", (mine, theirs, found)
    finally:
        source.close()
        target.close()


def _found(spec: CopySpec, source: PostgresSource, target: PostgresTarget) -> tuple[str, str, str]:
    """The stream, the cast, and the warning or the reason."""
    mine, theirs = source.columns(spec.relation), target.columns(spec.target_ref)
    try:
        mapping = match_columns(spec, mine, theirs, source, target, FORMATS)
    except PlanningError as error:
        return "refused", "", error.message
    return mapping.format.partition("-")[2], mapping.pairs[0].cast, " ".join(mapping.warnings)
