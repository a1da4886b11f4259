"""Values of each kind, at the ends of their ranges, are read as written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from penstock.backends.parquet.files.listing import local_file
from penstock.backends.parquet.files.scan import whole_file
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.load.text_format import TextFormat
from penstock.backends.text.location import parse

from ...contract.rows import KINDS
from ...plain_rows import plain

NESTED = ("integers", "texts")


def write_file(path: Path, table: pa.Table) -> TextScan:
    location = parse(f"file://{path}", "--target")
    with path.open("wb") as file:
        writer = TextFormat(location.options, whole=False).writer(
            file, table.schema, None, frozenset()
        )
        writer.write_table(table.slice(0, 2), 2)
        writer.write_table(table.slice(2), 2)
        writer.close()
    return TextScan(file_system(location.files, "target"), table.schema, location.options)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.jsonl", "a.ndjson.zst"])
def test_every_kind_of_value(tmp_path: Path, name: str) -> None:
    kinds = {name: kind for name, kind in KINDS.items() if name not in NESTED}
    count = max(len(kind.values) for kind in kinds.values()) + 1

    def array(kind: Any) -> pa.Array:
        # Not the UUIDs themselves, which pyarrow takes from version 24 on.
        values = [each.bytes if isinstance(each, UUID) else each for each in kind.values]
        return pa.array([*values, *[None] * (count - len(values))], kind.arrow)

    table = pa.table({name: array(kind) for name, kind in kinds.items()})
    path = tmp_path / name
    scan = write_file(path, table)
    part = whole_file(local_file(str(path), path.stat()))
    found = pa.Table.from_batches(scan.batches([part], table.schema.names))
    for column in table.schema.names:
        assert plain(found[column].to_pylist()) == plain(table[column].to_pylist()), column


def test_nested_values_are_json(tmp_path: Path) -> None:
    pairs = pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32()))
    table = pa.table(
        {
            "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
            "struct": pa.array([{"a": "x\n", "b": 1.5}, None, {"a": None, "b": None}]),
            "map": pairs,
        }
    )
    write_file(tmp_path / "a.jsonl", table)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"list": [1, None], "struct": {"a": "x\n", "b": 1.5}, "map": {"k": 1}},
        {"list": [], "struct": None, "map": None},
        {"list": None, "struct": {"a": None, "b": None}, "map": {}},
    ]
