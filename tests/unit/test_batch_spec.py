"""The request for a batch: patterns, sections, and rejected input."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.model.tables import Query, TableRef
from penstock.spec.batch_spec import MAX_BATCH_ID, BatchSpec

ENDS = {"source": "env:A", "target": "env:B"}


def read(**options: Any) -> BatchSpec:
    return BatchSpec.from_mapping({**ENDS, **options}, "plan.toml")


def test_patterns_find_tables_and_all_get_the_same_options() -> None:
    batch = read(tables=["public.*"], mode="truncate", degree=3, target_schema="dw")
    specs = batch.specs([TableRef("public", "a"), TableRef("public", "b")], lambda spec: spec)
    assert [str(spec.relation) for spec in specs] == ["public.a", "public.b"]
    assert [str(spec.target_ref) for spec in specs] == ["dw.a", "dw.b"]
    assert {spec.mode for spec in specs} == {"truncate"}
    assert batch.degree == 3


def test_a_section_takes_precedence_over_patterns() -> None:
    batch = read(
        tables=["public.*"],
        mode="truncate",
        table=[{"table": "public.a", "mode": "append", "partitions": 7}],
    )
    found = [TableRef("public", "a"), TableRef("public", "b")]
    named, other = batch.specs(found, lambda spec: spec)
    assert (str(named.relation), named.mode, named.partitions) == ("public.a", "append", 7)
    assert (str(other.relation), other.mode, other.partitions) == ("public.b", "truncate", None)


def test_a_section_may_read_a_query_into_a_table() -> None:
    (spec,) = read(table=[{"query": "SELECT 1 AS a", "target-table": "dw.one"}]).named_tables()
    assert spec.relation == Query("SELECT 1 AS a")
    assert spec.target_ref == TableRef("dw", "one")


def test_patterns_may_be_a_single_text() -> None:
    assert read(tables="public.*, sales.*").tables == ("public.*", "sales.*")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["expected tables", "--tables PATTERN", '[tables."PATTERN"]']),
        ({"tables": [" "]}, ["tables: expected patterns such as 'public.*'", "an empty string"]),
        ({"tables": 7}, ["tables: expected patterns", "found 7"]),
        ({"tables": ["a.*"], "colour": "red"}, ["unknown option 'colour'"]),
        ({"tables": ["a.*"], "query": "SELECT 1"}, ["query belongs in the section of a table"]),
        ({"table": "public.a"}, ["expected [[table]] sections", "found 'public.a'"]),
        ({"table": [{"table": "a."}]}, ["--table", "expected NAME or SCHEMA.NAME", "found 'a.'"]),
        ({"table": [{"table": "a.b", "mode": "merge"}]}, ["--mode", "found 'merge'"]),
        (
            {"table": [{"table": "a.b"}, {"table": "a.c", "target-table": "a.b"}]},
            ["two tables would be copied to a.b"],
        ),
        ({"tables": ["a.*"], "on-table-error": "ask"}, ["--on-table-error", "found 'ask'"]),
        ({"tables": ["a.*"], "run-id": "x" * (MAX_BATCH_ID + 1)}, ["--run-id", "found 28"]),
        ({"tables": ["a.*"], "source": ""}, ["expected --source; found none"]),
    ],
)
def test_errors_have_the_expected_and_the_found_value(
    options: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        read(**options)
    for word in words:
        assert word in refused.value.message


def test_the_pool_of_streams_belongs_to_the_batch() -> None:
    batch = read(tables=["public.*"], degree="auto", max_rate="50MB", max_lag="1m")
    assert (batch.degree, batch.max_rate, batch.max_lag) == ("auto", 50_000_000, 60.0)
    assert read(tables=["public.*"]).degree == "auto"
    # Its tables are validated, and resumed one by one, with the same options.
    (spec,) = batch.specs([TableRef("public", "a")], lambda spec: spec)
    assert (spec.degree, spec.max_rate, spec.max_lag) == ("auto", 50_000_000, 60.0)
    with pytest.raises(UsageError, match="max_rate applies to the whole batch"):
        read(table=[{"table": "public.a", "max_rate": "1MB"}])


def test_patterns_match_tables_that_are_known() -> None:
    known = [TableRef("sales", name) for name in ("orders", "tmp_x", "items")]
    known.append(TableRef("hr", "staff"))

    def names(schemas: tuple[str, ...] = ("sales",), **options: Any) -> list[str]:
        raw = {"source": "env:A", "target": "env:B", **options}
        batch = BatchSpec.from_mapping(raw, "f.toml")
        return [spec.source_name for spec in batch.specs_of_known(known, schemas)]

    assert names(tables=["sales.*"], exclude=["tmp_*"]) == ["sales.orders", "sales.items"]
    assert names(tables=["o*"]) == ["sales.orders"]
    assert names(("hr",), tables=["s*"]) == ["hr.staff"]
    sections = {"sales.*": {}, "sales.tmp_*": {"skip": True}, "public.gone": {}}
    assert names(tables=sections) == ["public.gone", "sales.orders", "sales.items"]
    # A table that is named keeps its name, which is that of its asset.
    assert names(tables={"orders": {}, "*": {}}) == ["orders", "sales.tmp_x", "sales.items"]
    assert names((), tables={"orders": {}, "hr.*": {}}) == ["orders", "hr.staff"]
