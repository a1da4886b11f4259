"""The same value gets the same mask, whichever system it is read from."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock import CopySpec, PlanningError, UsageError, copy, verify
from penstock.backends.api.capabilities import COMPUTING

from .copying import Pair, finish
from .database import Database
from .databases import DATABASES
from .rows import Rows

MASKING = [
    name for name, kind in DATABASES.items()
    if name in ("postgresql", "mysql", "duckdb", "parquet", "clickhouse", "snowflake")
]  # fmt: skip
KEYED = [name for name in MASKING if name != "snowflake"]
SALT = "Pepper Ω 471108150042"
TEXTS = ("", "ann@example.org", "é", "Žluťoučký kůň 🐘", "1234", "12345", "x" * 300, None)
COLUMNS = {"id": "bigint", "word": "text", "number": "bigint", "day": "date", "seen": "timestamptz"}
ROWS = Rows(
    COLUMNS,
    [
        (
            place,
            text,
            None if text is None else -(10**17) * place,
            None if text is None else date(2020 + place, 5, 17),
            None if text is None else datetime(2020 + place, 5, 17, 13, 14, 15, tzinfo=UTC),
        )
        for place, text in enumerate(TEXTS)
    ],
)


def text_of(value: Any) -> str | None:
    return None if value is None else str(value)


def hashed(value: Any) -> str | None:
    text = text_of(value)
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def keyed(value: Any, key: str = SALT) -> str | None:
    text = text_of(value)
    if text is None:
        return None
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def last4(value: Any) -> str | None:
    text = text_of(value)
    if text is None or len(text) <= 4:
        return None if text is None else "*" * len(text)
    return "*" * (len(text) - 4) + text[-4:]


def year(value: Any) -> str:
    """Return the first of January in the form that all systems share."""
    return "None" if value is None else f"{value.year}-01-01"


@pytest.fixture
def mine(request: pytest.FixtureRequest, open_database: Callable[[str], Database]) -> Pair:
    name = request.param
    other = "duckdb" if name == "parquet" else "parquet"
    pair = Pair(open_database(name), open_database(other))
    moment = "timestamptz" if "timestamptz" in pair.mine.types else "timestamp"
    pair.mine.fill(Rows({**COLUMNS, "seen": moment}, ROWS.rows))
    return pair


def shared_options(pair: Pair) -> dict[str, Any]:
    """Return the options common to all copies."""
    shared = pair.mine.backend.source_capabilities.shared_snapshots
    shared = shared and pair.mine.name != "snowflake"  # the emulator has no time travel
    return {"mode": "recreate", "snapshot": "shared" if shared else "none"}


def refused(pair: Pair, **options: Any) -> str:
    """Return the reason why a copy is rejected before anything changes."""
    before = pair.theirs.everything()
    with pytest.raises((PlanningError, UsageError)) as caught:
        pair.copy(**shared_options(pair), **options)
    assert pair.theirs.everything() == before
    return caught.value.message


def copied(pair: Pair, **options: Any) -> list[tuple[Any, ...]]:
    finished = pair.copy(**shared_options(pair), **options)
    found = verify(finished.run_id, **pair.ends, checksum=True)
    assert found.ok, [(check.partition_id, check.note) for check in found.wrong]
    assert found.method == "checksums"
    return sorted(pair.theirs.read(), key=lambda row: int(row[0]))


@pytest.mark.parametrize("mine", MASKING, indirect=True)
def test_hashes_use_the_utf8_text(mine: Pair) -> None:
    rows = copied(mine, mask=("word=hash", "number=hash"))
    for id_, word, number, *_ in rows:
        row = ROWS.rows[int(id_)]
        assert word == hashed(row[1])
        assert number == hashed(row[2])


@pytest.mark.parametrize("mine", KEYED, indirect=True)
@pytest.mark.parametrize("key", [SALT, "k" * 64, "long" * 30])
def test_hmacs_use_the_utf8_text(mine: Pair, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", key)
    rows = copied(mine, mask=("word=hmac:env:SALT", "number=hmac:env:SALT"))
    for id_, word, number, *_ in rows:
        row = ROWS.rows[int(id_)]
        assert word == keyed(row[1], key)
        assert number == keyed(row[2], key)


@pytest.mark.parametrize("mine", MASKING, indirect=True)
def test_null_last4_and_year_masks(mine: Pair) -> None:
    rows = copied(mine, mask=("number=null", "word=last4", "day=year", "seen=year"))
    for id_, word, number, day, at in rows:
        row = ROWS.rows[int(id_)]
        assert word == last4(row[1])
        assert number is None
        assert str(day)[:10] == year(row[3])
        assert str(at)[:10] == year(row[4])
        assert at is None or " 00:00:00" in str(at).replace("T", " ")


@pytest.mark.parametrize("mine", MASKING, indirect=True)
def test_columns_are_computed_added_and_excluded(mine: Pair) -> None:
    rows = copied(
        mine,
        set=("number=id + 1, loaded_from='shop, \"main\"'",),
        exclude_columns=("day", "s*"),
    )
    assert [len(row) for row in rows] == [4] * len(ROWS.rows)
    for id_, word, number, origin in rows:
        assert word == ROWS.rows[int(id_)][1]
        assert int(number) == int(id_) + 1
        assert origin == 'shop, "main"'


@pytest.mark.parametrize("mine", MASKING, indirect=True)
def test_conditions_apply_to_unmasked_values(mine: Pair) -> None:
    """This is so even if a database would resolve a name to the computed column of that name."""
    rows = copied(
        mine,
        where="word = '12345'",
        mask=("word=hash",),
        set=("copy_of=word",),
    )
    assert [(word, copy_of) for _, word, *_, copy_of in rows] == [(hashed("12345"), "12345")]


@pytest.mark.parametrize("mine", MASKING, indirect=True)
@pytest.mark.parametrize(
    "strategy",
    [
        {},
        {"key": "id", "partitions": 3},
        {"strategy": "hash", "key": "word", "partitions": 3},
    ],
)
def test_partitions_are_cut_by_unmasked_values(mine: Pair, strategy: dict[str, Any]) -> None:
    rows = copied(mine, mask=("word=hash",), **strategy)
    assert {word for _, word, *_ in rows} == {hashed(text) for text in TEXTS}


@pytest.mark.parametrize("mine", MASKING, indirect=True)
@pytest.mark.parametrize("text", ["no_such_column + 1", "count(*)", "1) + (2", "sum(id) OVER ()"])
def test_an_expression_that_is_not_about_one_row_is_rejected(mine: Pair, text: str) -> None:
    assert "--set extra" in refused(mine, set=[f"extra={text}"])


@pytest.mark.parametrize("mine", MASKING, indirect=True)
def test_a_mask_for_another_type_is_rejected(mine: Pair) -> None:
    for mask in ("word=year", "seen=hash", "day=last4"):
        assert f"--mask {mask}: expected" in refused(mine, mask=(mask,))
    message = refused(mine, mask=("wrd=hash",))
    assert "no column 'wrd' in" in message
    assert "it has id, word" in message


def test_a_system_without_masks_rejects_them(open_database: Callable[[str], Database]) -> None:
    for name in DATABASES:
        backend = DATABASES[name]
        if name in MASKING:
            continue
        pair = Pair(open_database(name), open_database("parquet"))
        assert COMPUTING.isdisjoint(pair.mine.backend.source_capabilities.options), backend
        with pytest.raises(UsageError, match="does not support --mask"):
            pair.copy(mode="recreate", mask=("a=hash",))


@pytest.mark.parametrize("mine", ["snowflake"], indirect=True)
def test_snowflake_rejects_masks_with_a_key(mine: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", SALT)
    with pytest.raises(PlanningError, match="cannot keep a key out of its statements"):
        mine.copy(mode="recreate", mask=("word=hmac:env:SALT",))


def test_text_files_support_masks(
    tmp_path: Path, open_database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALT", SALT)
    (tmp_path / "a.csv").write_text("id,word\n1,é\n2,12345\n", encoding="utf-8")
    theirs = open_database("parquet")
    finish(
        copy(
            CopySpec(
                source=str(tmp_path / "a.csv"),
                target=theirs.url,
                mode="recreate",
                set=("doubled=id * 2",),
                mask=("word=hmac:env:SALT",),
                verify="checksums",
            )
        )
    )
    rows = sorted(theirs.read(), key=lambda row: int(row[0]))
    assert [(word, int(doubled)) for _, word, doubled in rows] == [
        (keyed("é"), 2),
        (keyed("12345"), 4),
    ]
