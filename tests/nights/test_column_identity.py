"""Names that stand for other columns than in the last night, masks that such columns had, and
columns that both sides compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.backends.conftest import Pair

import penstock
from penstock import BatchSpec, CopySpec, Drifted, PenstockError
from penstock.events import Planned

from ..covering import each_pair, each_value
from .test_rules import copy_options, full, night, pair

__all__ = ["pair"]

ROWS = 20
EXCHANGED = (
    "ALTER TABLE items RENAME email TO passing",
    "ALTER TABLE items RENAME note TO email",
    "ALTER TABLE items RENAME passing TO note",
)
REPLACED = (
    "ALTER TABLE items DROP note",
    "ALTER TABLE items RENAME email TO note",
    "ALTER TABLE items ADD email text DEFAULT 'new'",
)
ROTATED = (
    "ALTER TABLE items RENAME email TO passing",
    "ALTER TABLE items RENAME note TO email",
    "ALTER TABLE items RENAME word TO note",
    "ALTER TABLE items RENAME passing TO word",
)
DDL = {"exchanged": EXCHANGED, "replaced": REPLACED, "rotated": ROTATED}
NIGHTS: dict[str, dict[str, Any]] = {
    "xmin": {"incremental": "xmin"},
    "column": {"incremental": "at", "lookback": "0"},
}
HIDDEN: dict[str, dict[str, Any]] = {
    "mask": {"mask": ("email=hash",)},
    "pattern": {"mask": ("*mail=hash",)},
    "exclude": {"exclude_columns": ("email",)},
    "set": {"set": ("email='none'",)},
}
LOADS = ("truncate", "recreate", "swap", "upsert", "append", "replace")
DRIFT = ("fail", "ignore", "add,widen,rename")
SHAPES = {
    "plain": ("CREATE TABLE items ({})",),
    "partitioned": (
        "CREATE TABLE items ({}) PARTITION BY RANGE (id)",
        "CREATE TABLE items_low PARTITION OF items FOR VALUES FROM (0) TO (11)",
        # Its columns have other numbers.
        "CREATE TABLE items_high (gone int, note text, email text, word text, at timestamptz"
        " NOT NULL, id int NOT NULL)",
        "ALTER TABLE items_high DROP gone",
        "ALTER TABLE items ATTACH PARTITION items_high FOR VALUES FROM (11) TO (1000)",
    ),
    "inherited": ("CREATE TABLE items ({})", "CREATE TABLE more () INHERITS (items)"),
}
COLUMNS = "id int PRIMARY KEY, word text, email text, note text, at timestamptz NOT NULL"


def create(pair: Pair, shape: str = "plain") -> None:
    for statement in SHAPES[shape]:
        pair.source.run(statement.format(COLUMNS))
    pair.source.run(
        "INSERT INTO items SELECT i, 'w' || i, 'm' || i || '@example.org', 'n' || i,"
        f" now() - interval '1 day' FROM generate_series(1, {ROWS}) AS i"
    )
    if shape == "inherited":
        pair.source.run(
            "INSERT INTO more SELECT i, 'w' || i, 'm' || i || '@example.org', 'n' || i,"
            " now() - interval '1 day' FROM generate_series(101, 120) AS i"
        )
    pair.target.run(f"CREATE TABLE items ({COLUMNS})")


def plain_addresses(pair: Pair) -> int:
    return int(pair.target.value("SELECT count(*) FROM items AS t WHERE t::text LIKE '%@%'"))


def check_values(pair: Pair, names: str = "id, word, email, note, at") -> None:
    query = f"SELECT {names} FROM items ORDER BY id"
    assert pair.target.rows(query) == pair.source.rows(query)


@pytest.mark.parametrize(("shape", "by", "ddl"), each_pair(SHAPES, NIGHTS, DDL))
def test_values_follow_names_that_other_columns_have_now(
    pair: Pair, shape: str, by: str, ddl: str
) -> None:
    create(pair, shape)
    options = {**NIGHTS[by], "deletes": "hard", "descendants": "include"}
    night(pair, **options).done()
    pair.source.run(*DDL[ddl])
    found = night(pair, **options)
    assert full(found)
    check_values(pair)
    assert full(night(pair, **options)) == ""


@pytest.mark.parametrize(("ddl", "hidden", "by", "on_drift"), each_pair(DDL, HIDDEN, NIGHTS, DRIFT))
def test_a_hidden_column_never_arrives_under_another_name(
    pair: Pair, ddl: str, hidden: str, by: str, on_drift: str
) -> None:
    create(pair)
    options = {**NIGHTS[by], **HIDDEN[hidden], "on_drift": on_drift}
    night(pair, **options).done()
    assert plain_addresses(pair) == 0
    pair.source.run(*DDL[ddl])
    before = pair.target.rows("SELECT * FROM items ORDER BY id")
    for more in ({}, {"full_every": "0s"}):
        found = night(pair, **options, **more)
        assert found.code == 76, found.error
        new = "word" if ddl == "rotated" else "note"
        assert f"{new} is what was email" in found.message
        assert f"--set {new}={new}" in found.message
    assert pair.target.rows("SELECT * FROM items ORDER BY id") == before


@pytest.mark.parametrize(("hidden", "load"), each_value(HIDDEN, LOADS))
def test_a_full_load_does_not_reveal_what_nights_hide(pair: Pair, hidden: str, load: str) -> None:
    create(pair)
    night(pair, **HIDDEN[hidden]).done()
    pair.source.run(*EXCHANGED)
    options = {"mode": load, "incremental": None, **HIDDEN[hidden]}
    if load == "replace":
        options["key"] = "id"
    found = night(pair, **options)
    assert found.code == 76, found.error
    assert plain_addresses(pair) == 0


def test_a_reset_watermark_remembers_masks(pair: Pair) -> None:
    create(pair)
    night(pair, **HIDDEN["mask"]).done()
    pair.source.run(*EXCHANGED)
    penstock.reset_watermark("public.items to public.items", target=pair.target.url)
    assert night(pair, **HIDDEN["mask"]).code == 76
    assert plain_addresses(pair) == 0


def test_a_mask_for_the_new_name_is_enough(pair: Pair) -> None:
    create(pair)
    night(pair, mask=("email=hash",)).done()
    pair.source.run(*EXCHANGED)
    night(pair, mask=("email=hash", "note=hash")).done()
    assert plain_addresses(pair) == 0
    check_values(pair, "id, word, at")


def test_the_user_may_say_that_a_renamed_column_is_plain(pair: Pair) -> None:
    create(pair)
    night(pair, mask=("email=hash",)).done()
    pair.source.run(*EXCHANGED)
    said = {"mask": ("email=hash",), "set": ("note=note",)}
    night(pair, **said).done()
    check_values(pair, "id, word, note, at")
    night(pair, **said).done()
    # What was said once is not said for ever.
    assert night(pair, mask=("email=hash",)).code == 76


def test_a_mask_that_the_user_drops_is_dropped(pair: Pair) -> None:
    create(pair)
    night(pair, mask=("email=hash",)).done()
    night(pair).done()
    check_values(pair)
    pair.source.run(*EXCHANGED)
    night(pair).done()
    check_values(pair)


def test_a_mask_whose_column_was_renamed_says_so(pair: Pair) -> None:
    create(pair)
    night(pair, mask=("email=hash",)).done()
    pair.source.run("ALTER TABLE items RENAME email TO mail")
    found = night(pair, mask=("email=hash",), on_drift="add,rename")
    assert "--mask: no column 'email' in public.items, which is called 'mail' now" in found.message
    night(pair, mask=("mail=hash",), on_drift="rename").done()
    assert plain_addresses(pair) == 0
    assert pair.target.rows("SELECT count(mail) FROM items") == [(ROWS,)]


def test_masks_follow_their_columns(pair: Pair) -> None:
    """Two masked columns exchange names: each would get the other's mask."""
    create(pair)
    masks = ("email=hash", "note=last4")
    night(pair, mask=masks).done()
    before = pair.target.rows("SELECT * FROM items ORDER BY id")
    pair.source.run(*EXCHANGED)
    for on_drift in DRIFT:
        found = night(pair, mask=masks, on_drift=on_drift)
        assert found.code == 76
        assert "note is what was email, which was masked by hash, not by last4" in found.message
    assert pair.target.rows("SELECT * FROM items ORDER BY id") == before
    night(pair, mask=("email=last4", "note=hash")).done()
    assert plain_addresses(pair) == 0
    assert len(pair.target.value("SELECT min(note) FROM items")) == 64


@pytest.mark.parametrize(("hidden", "on_drift"), each_value(["mask", "exclude"], DRIFT))
def test_a_batch_does_not_reveal_a_renamed_column(pair: Pair, hidden: str, on_drift: str) -> None:
    create(pair)
    options = {"mode": "upsert", "incremental": "xmin", **HIDDEN[hidden], "on_drift": on_drift}

    def batch() -> None:
        spec = BatchSpec(
            source=pair.source.url,
            target=pair.target.url,
            tables=("public.items",),
            defaults=options,
        )
        list(penstock.copy_all(spec))

    batch()
    pair.source.run(*REPLACED)
    with pytest.raises(PenstockError):
        batch()
    pair.source.run("ALTER TABLE items DROP email", "ALTER TABLE items RENAME note TO mail")
    with pytest.raises(PenstockError):
        batch()
    assert plain_addresses(pair) == 0
    pair.source.run("ALTER TABLE items ADD email text")
    # With `ignore`, columns that the target does not have are not copied.
    if on_drift == "ignore":
        batch()
    options["on_drift"] = "add,rename"
    with pytest.raises(PenstockError):
        batch()
    assert plain_addresses(pair) == 0


# Computed columns


def computed(pair: Pair, kind: str = "STORED") -> None:
    for side in (pair.source, pair.target):
        side.run(
            "CREATE TABLE items (id int PRIMARY KEY, a int, b int,"
            f" c int GENERATED ALWAYS AS (a + b) {kind}, at timestamptz DEFAULT now() NOT NULL)"
        )
    pair.source.run("INSERT INTO items SELECT i, i, 1 FROM generate_series(1, 20) AS i")


@pytest.mark.parametrize("by", NIGHTS)
def test_another_expression_of_a_computed_column_is_drift(pair: Pair, by: str) -> None:
    computed(pair)
    night(pair, **NIGHTS[by]).done()
    statements = (
        "ALTER TABLE items DROP c",
        "ALTER TABLE items ADD c int GENERATED ALWAYS AS (a * 100 + b) STORED",
    )
    pair.source.run(*statements)
    for on_drift in ("fail", "add,widen,rename"):
        found = night(pair, **NIGHTS[by], on_drift=on_drift)
        assert found.code == 76
        assert "compute column c as ((a * 100) + b), no longer as (a + b)" in found.message
    night(pair, **NIGHTS[by], on_drift="ignore").done()
    assert night(pair, **NIGHTS[by]).code == 76
    pair.target.run(*statements)
    night(pair, **NIGHTS[by]).done()
    check_values(pair, "id, a, b, c")
    night(pair, **NIGHTS[by]).done()


@pytest.mark.parametrize(
    "remedy",
    [
        ("ALTER TABLE items ALTER c DROP EXPRESSION",),
        None,
    ],
)
def test_the_advice_about_a_computed_column_works(pair: Pair, remedy: Sequence[str] | None) -> None:
    computed(pair)
    night(pair).done()
    pair.source.run(
        "ALTER TABLE items DROP c",
        "ALTER TABLE items ADD c int GENERATED ALWAYS AS (a * 100 + b) STORED",
    )
    assert night(pair).code == 76
    if remedy:
        pair.target.run(*remedy)
    else:
        night(pair, mode="recreate", incremental=None).done()
    night(pair).done()
    check_values(pair, "id, a, b, c")


def test_a_renamed_part_of_an_expression_is_no_other_expression(pair: Pair) -> None:
    computed(pair)
    night(pair).done()
    pair.source.run("ALTER TABLE items RENAME a TO number")
    night(pair, on_drift="rename").done()
    check_values(pair, "id, number, b, c")
    night(pair).done()


def test_an_expression_whose_columns_exchange_names_is_drift(pair: Pair) -> None:
    for side in (pair.source, pair.target):
        side.run(
            "CREATE TABLE items (id int PRIMARY KEY, a int, b int,"
            " c int GENERATED ALWAYS AS (a * 2) STORED)"
        )
    pair.source.run("INSERT INTO items SELECT i, i, 1 FROM generate_series(1, 20) AS i")
    night(pair).done()
    pair.source.run(
        "ALTER TABLE items RENAME a TO x",
        "ALTER TABLE items RENAME b TO a",
        "ALTER TABLE items RENAME x TO b",
    )
    with pytest.raises(Drifted):
        list(penstock.copy(CopySpec(**copy_options(pair))))


@pytest.mark.parametrize("mode", ["truncate", "upsert", "append"])
def test_verification_compares_what_both_sides_compute(pair: Pair, mode: str) -> None:
    computed(pair)
    pair.target.run(
        "ALTER TABLE items DROP c",
        "ALTER TABLE items ADD c int GENERATED ALWAYS AS (a * 100 + b) STORED",
    )
    found = night(pair, mode=mode, incremental=None, run_id="loaded")
    (planned,) = (event for event in found.events if isinstance(event, Planned))
    expected = "c: the source computes it as (a + b), and the target as ((a * 100) + b)"
    assert expected in planned.warnings
    ends: dict[str, Any] = {"source": pair.source.url, "target": pair.target.url}
    assert not penstock.verify("loaded", **ends, checksum=True).ok
    pair.target.run(
        "ALTER TABLE items DROP c",
        "ALTER TABLE items ADD c int GENERATED ALWAYS AS (a + b) STORED",
    )
    assert penstock.verify("loaded", **ends, checksum=True).ok
