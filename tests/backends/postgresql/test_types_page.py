"""Each line of the PostgreSQL types in `tests/types/`, from one real server to another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock import PlanningError
from penstock.backends.postgresql.session.statements import FORMATS
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.planning.asking.catalogs import match_columns

from ...types.type_files import examples, lines

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

    from penstock import CopySpec


def _lines() -> Iterator[tuple[str, str, str, str, str]]:
    """Return source, target, cast, stream and remark of each line."""
    for type_, stream, because in lines("postgresql/same_type"):
        yield type_, type_, "text" if "cast to text" in because else "", stream, because
    for source, target, stream, warning in lines("postgresql/narrower"):
        yield source, target, "", stream, warning
    for source, target, cast, stream, warning in lines("postgresql/casts"):
        yield source, target, cast, stream, warning


def test_every_line_is_true(pair: Pair) -> None:
    # So that no object id is the same on both sides.
    pair.target.run(*(f"CREATE TYPE burnt_{number} AS ENUM ()" for number in range(20)))
    pair.both(examples("postgresql"))
    source = PostgresSource(pair.source.url)
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        for number, (mine, theirs, cast, stream, remark) in enumerate(_lines()):
            pair.source.run(f"CREATE TABLE t{number} (a {mine})")
            pair.target.run(f"CREATE TABLE t{number} (a {theirs})")
            found = _mapping_of(pair.spec(f"public.t{number}"), source, target)
            assert found[:2] == (stream, cast), (mine, theirs, found)
            if stream != "text" or remark == "travels by name":  # others say more than the plan
                assert remark in found[2], (mine, theirs, found)
            if not remark:
                assert found[2] == "", (mine, theirs, found)
    finally:
        source.close()
        target.close()


def _mapping_of(
    spec: CopySpec, source: PostgresSource, target: PostgresTarget
) -> tuple[str, str, str]:
    """Return the stream, the cast, and the warning or the reason."""
    mine, theirs = source.columns(spec.relation), target.columns(spec.target_ref)
    try:
        mapping = match_columns(spec, mine, theirs, source, target, FORMATS)
    except PlanningError as error:
        return "refused", "", error.message
    return mapping.format.partition("-")[2], mapping.pairs[0].cast, " ".join(mapping.warnings)
