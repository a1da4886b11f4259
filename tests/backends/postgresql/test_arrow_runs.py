"""Whole runs in record batches: workers, modes, verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import PenstockError, resume, verify
from penstock.backends.api.capabilities import Capabilities
from penstock.backends.api.worker import ARROW
from penstock_testkit.tpch import load

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2), s text, c char(5), b bytea, u uuid,"
    " at timestamptz, tags text[], doc json)"
)


@pytest.fixture(autouse=True)
def in_record_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Force record batches, which two PostgreSQL servers would not use between them."""
    monkeypatch.setattr(Capabilities, "formats", property(lambda _: (ARROW,)))


def fill(pair: Pair, rows: int = 20_000) -> None:
    pair.both(TABLE)
    pair.source.run(
        "INSERT INTO t SELECT n, n / 7.0, repeat('é', n % 50), 'a', decode(md5(n::text), 'hex'),"
        " md5(n::text)::uuid, to_timestamp(n * 1000.5), ARRAY[n::text, NULL],"
        f" json_build_object('n', n) FROM generate_series(1, {rows}) AS n",
        "INSERT INTO t (id) VALUES (-1)",
        "ANALYZE t",
    )


@pytest.mark.parametrize("mode", ["append", "truncate", "replace", "swap", "upsert", "recreate"])
def test_each_mode_loads_all_rows(pair: Pair, mode: str) -> None:
    fill(pair)
    keyed = {"strategy": "range", "key": "id"} if mode == "replace" else {}
    report = pair.copy(mode=mode, degree=2, partitions=4, **keyed)
    pair.assert_same()
    result = verify(report.run_id, source=pair.source.url, target=pair.target.url, checksum=True)
    assert result.ok
    assert not [note for note in result.notes if "not compared" in note]
    pair.target.run("UPDATE t SET tags[1] = 'x' WHERE id = 5000")
    result = verify(report.run_id, source=pair.source.url, target=pair.target.url, checksum=True)
    assert not result.ok


def test_a_run_resumes_after_a_bad_row_is_fixed(pair: Pair) -> None:
    fill(pair, 5000)
    pair.source.run("UPDATE t SET n = 'NaN' WHERE id = 4000")
    with pytest.raises(PenstockError) as caught:
        pair.copy(run_id="r", mode="truncate", partitions=2, strategy="range", key="id")
    notes = "\n".join(caught.value.__notes__)
    assert "column 'n', row " in notes
    assert "found 'NaN'" in notes
    pair.source.run("UPDATE t SET n = 0 WHERE id = 4000")
    *_, _ = resume("r", source=pair.source.url, target=pair.target.url, on_snapshot_lost="restart")
    pair.assert_same()


def test_tpch_tables_agree(pair: Pair) -> None:
    load(pair.source.url, ("lineitem", "orders"), 0.01)
    for name in ("lineitem", "orders"):
        report = pair.copy(f"public.{name}", mode="recreate", degree=2)
        pair.assert_same(f"public.{name}")
        assert verify(
            report.run_id, source=pair.source.url, target=pair.target.url, checksum=True
        ).ok
