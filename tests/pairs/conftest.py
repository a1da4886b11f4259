"""Every pair of a source and a target."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import CopySpec, copy
from penstock.errors import PenstockError
from penstock.events import Event, Finished
from penstock_testkit import S3Server, Server

from ..conftest import fresh_database
from .ends import BucketEnd, DuckEnd, End, FilesEnd, PostgresEnd

NAMES = ("postgresql", "duckdb", "parquet")
PAIRS = [
    # Between two PostgreSQL databases rows never become record batches:
    # that is backends/postgresql/.
    *((mine, theirs) for mine in NAMES for theirs in NAMES if {mine, theirs} != {"postgresql"}),
    ("s3", "postgresql"),
    ("postgresql", "s3"),
]


@dataclass(frozen=True)
class Pair:
    mine: End
    theirs: End

    @property
    def ends(self) -> dict[str, Any]:
        """The two URLs."""
        return {"source": self.mine.source["source"], "target": self.theirs.target["target"]}

    def spec(self, **options: Any) -> CopySpec:
        # Truncated: then all that is there is the run's, and can be compared.
        ends = {**self.mine.source, **self.theirs.target}
        return CopySpec(**{"degree": 1, "mode": "truncate", **ends, **options})

    def copy(self, **options: Any) -> Finished:
        """Copy to the end. An error comes with a note of what the events said."""
        seen: list[Event] = []
        try:
            for event in copy(self.spec(**options)):
                seen.append(event)
        except PenstockError as error:
            for event in seen:
                error.add_note(event.to_line())
            raise
        assert isinstance(seen[-1], Finished)
        return seen[-1]


@pytest.fixture
def make_end(
    request: pytest.FixtureRequest, tmp_path: Path, source_server: Server
) -> Iterator[Callable[[str], End]]:
    """Makes an end of a kind, new and empty."""
    with ExitStack() as stack:

        def made(name: str) -> End:
            folder = tmp_path / uuid.uuid4().hex[:8]
            if name == "postgresql":
                return PostgresEnd(stack.enter_context(fresh_database(source_server)))
            if name == "duckdb":
                return DuckEnd(folder.with_suffix(".duckdb"))
            if name == "parquet":
                return FilesEnd(folder)
            s3: S3Server = request.getfixturevalue("s3_server")
            bucket = f"b{uuid.uuid4().hex[:12]}"
            s3.create_bucket(bucket)
            return BucketEnd(s3, bucket, folder)

        yield made


# What depends on one of the two ends is tried with each of them, not with every pair. A bucket is
# cut and loaded as a folder is, which backends/parquet/ holds for both.
BY_SOURCE = [(mine, "parquet") for mine in NAMES]
BY_TARGET = [("parquet", "postgresql"), ("parquet", "duckdb"), ("duckdb", "parquet")]


@pytest.fixture(params=BY_SOURCE, ids="-".join)
def by_source(request: pytest.FixtureRequest, make_end: Callable[[str], End]) -> Pair:
    """A pair for each kind of source."""
    mine, theirs = request.param
    return Pair(make_end(mine), make_end(theirs))


@pytest.fixture(params=BY_TARGET, ids="-".join)
def by_target(request: pytest.FixtureRequest, make_end: Callable[[str], End]) -> Pair:
    """A pair for each kind of target."""
    mine, theirs = request.param
    return Pair(make_end(mine), make_end(theirs))


@pytest.fixture(params=BY_TARGET[:2], ids="-".join)
def by_database(request: pytest.FixtureRequest, make_end: Callable[[str], End]) -> Pair:
    """A pair for each kind of target that is a database: its tables are there before the copy, and
    can be written to by others."""
    mine, theirs = request.param
    return Pair(make_end(mine), make_end(theirs))


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, make_end: Callable[[str], End]) -> Pair:
    mine, theirs = request.param
    return Pair(make_end(mine), make_end(theirs))
