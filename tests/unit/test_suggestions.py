"""The suggestions of `penstock init` for a table, from plain facts."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from penstock.backends.api.registry import find_backend
from penstock.engine.survey import Survey
from penstock.model.table_model import (
    MOMENT,
    TEXT,
    ColumnModel,
    ColumnType,
    IndexModel,
    KeyModel,
    TableModel,
)
from penstock.model.tables import NotCopied, TableRef
from penstock.planning.suggestions import (
    Suggestion,
    TableSummary,
    suggestion,
    view_suggestion,
)
from penstock.show.tables_file_text import pattern_of, tables_file_text

T = TableRef("public", "t")
ID = ColumnModel("id", nullable=False)
CODE = ColumnModel("code", ColumnType(TEXT))
PRIMARY = KeyModel("t_pkey", ("id",), primary=True)
KEYED = TableModel((ID, CODE), (PRIMARY,))
NIGHT = {"mode": "upsert", "incremental": "xmin", "deletes": "hard"}
MERGE = {"mode": "upsert", "atomic": "table", "deletes": "hard"}


def suggested(summary: TableSummary, target: str = "", source: str = "postgresql") -> Suggestion:
    """Return the suggestion for a table.

    Args:
        source, target: schemes; empty if the target is unknown.
    """
    aim = find_backend(f"{target}://x/y", "--target")[0].target_capabilities if target else None
    return suggestion(
        summary, find_backend(f"{source}://x/y", "--source")[0].source_capabilities, aim
    )


def at(name: str, *, nullable: bool = False, kind: str = MOMENT) -> ColumnModel:
    return ColumnModel(name, ColumnType(kind), native="timestamptz", nullable=nullable)


def with_columns(*columns: ColumnModel, indexes: tuple[str, ...] = ()) -> TableModel:
    return replace(
        KEYED,
        columns=(*KEYED.columns, *columns),
        indexes=tuple(IndexModel(f"by_{name}", (name,)) for name in indexes),
    )


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ((PRIMARY,), NIGHT),
        ((), {"mode": "truncate"}),
        # Rows whose code is NULL could not be distinguished.
        ((KeyModel("u", ("code",), primary=False),), {"mode": "truncate"}),
        (
            (KeyModel("u", ("code",), primary=False), KeyModel("v", ("id",), primary=False)),
            {**NIGHT, "conflict_columns": ["id"]},
        ),
        ((KeyModel("u", ("id",), primary=False), PRIMARY), NIGHT),
    ],
)
def test_a_key_identifies_rows(keys: tuple[KeyModel, ...], options: dict[str, object]) -> None:
    found = suggested(TableSummary(T, replace(KEYED, keys=keys), 7))
    assert found.options == options
    assert found.facts[0] == "about 7 rows"


def test_without_versions_all_rows_are_merged() -> None:
    found = suggested(TableSummary(T, KEYED, 1, "X tells no versions"))
    assert (found.options, found.instead) == (MERGE, {})
    assert found.why.startswith("X tells no versions: all rows are read every time")


@pytest.mark.parametrize(
    ("columns", "indexes", "chosen", "flaws"),
    [
        ([at("updated_at")], (), "updated_at", ", without an index"),
        ([at("updated_at"), at("last_modified")], ("last_modified",), "last_modified", ""),
        ([at("changed_on", nullable=True)], ("changed_on",), "changed_on", ", may be NULL"),
        (
            [at("ModifiedDate"), at("created_at")],
            ("created_at",),
            "ModifiedDate",
            ", without an index",
        ),
        ([at("lastUpdate")], ("lastUpdate",), "lastUpdate", ""),
        ([at("created_at"), at("exchange_at")], (), "", ""),
        ([at("updated", kind=TEXT)], (), "", ""),
        ([at("birthday")], ("birthday",), "", ""),
    ],
)
def test_a_column_that_may_track_changes_is_left_to_the_user(
    columns: list[ColumnModel], indexes: tuple[str, ...], chosen: str, flaws: str
) -> None:
    model = with_columns(*columns, indexes=indexes)
    found = suggested(TableSummary(T, model, None, "none"))
    assert found.options == MERGE
    assert found.instead == ({"incremental": chosen, "lookback": "1h"} if chosen else {})
    if chosen:
        assert f"{chosen} (timestamptz{flaws}) may say when a row has changed" in found.facts


def test_suggestions_depend_on_the_target() -> None:
    for scheme, options in (
        ("postgresql", NIGHT),
        ("duckdb", NIGHT),
        ("mysql", NIGHT),
        ("clickhouse", {"mode": "truncate"}),
    ):
        found = suggested(TableSummary(T, KEYED), scheme)
        assert found.options == options, scheme


def test_suggestions_depend_on_the_source() -> None:
    found = suggested(TableSummary(T, KEYED), source="clickhouse")
    assert found.options == {"mode": "truncate", "snapshot": "none"}
    assert "ClickHouse cannot read all rows as of one moment" in found.why
    assert suggested(TableSummary(T, TableModel()), source="clickhouse").options == found.options


def test_a_table_that_cannot_be_read_is_excluded_with_the_reason() -> None:
    found = suggested(TableSummary(T, error="no right to read it"))
    assert (found.options, found.why) == ({"skip": True}, "no right to read it")


def test_a_section_has_only_the_differences_from_most_tables() -> None:
    known = [TableSummary(TableRef("public", name), KEYED, 1) for name in ("a", "b")]
    known.append(TableSummary(TableRef("public", "c"), TableModel((CODE,)), 3))
    found = tuple(suggested(each) for each in known)
    view = view_suggestion(NotCopied("views", "public.v"))
    text = tables_file_text(Survey(found, (view,)), "env:A", "env:B", "")
    read = tomllib.loads(text)
    assert read["defaults"] == NIGHT
    assert read["tables"] == {"public.a": {}, "public.b": {}, "public.c": {"mode": "truncate"}}
    # If a section could not undo a common option, each section states it.
    other = suggested(TableSummary(T, KEYED, 1, "none"))
    read = tomllib.loads(tables_file_text(Survey((*found, other), ()), "env:A", "env:B", ""))
    assert "defaults" not in read
    assert (read["tables"]["public.a"], read["tables"]["public.t"]) == (NIGHT, MERGE)


def test_a_comment_cannot_end_before_its_text_does() -> None:
    name = 'evil"\n[tables."x"]\nmode = "append" # \x1b[31m'
    found = suggested(TableSummary(TableRef("s", name), error=f"{name} cannot be read"))
    read = tomllib.loads(tables_file_text(Survey((found,), ()), "env:A", "env:B", ""))
    (options,) = read["tables"].values()
    assert options == {"skip": True}


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        (TableRef("public", "orders"), "public.orders"),
        (TableRef("public", "Order Items"), "public.Order Items"),
        (TableRef("public", "a.b"), "public.a[.]b"),
        (TableRef("public", "a*"), "public.a[*]"),
    ],
)
def test_a_section_has_the_name_by_which_the_table_is_found(table: TableRef, pattern: str) -> None:
    assert pattern_of(table) == pattern
