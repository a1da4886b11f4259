"""The golden file of binary COPY fields, and streams built from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
REFUSED = "refused"
_TYPES = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.uint32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "uuid": pa.uuid(),
    "bytes": pa.binary(),
    "text": pa.string(),
    "trimmed": pa.string(),
    "jsonb": pa.string(),
    "labels": pa.dictionary(pa.int32(), pa.string()),
}


@dataclass(frozen=True)
class Field:
    """A line of the golden file."""

    kind: str
    type: str
    value: str
    encoded: bytes
    expected: str

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


def golden() -> list[Field]:
    path = Path(__file__).parents[2] / "types/postgresql/binary.txt"
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, type_, value, encoded, expected = line.split(" | ", 4)
            found.append(Field(kind, type_, json.loads(value), bytes.fromhex(encoded), expected))
    return found


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("list:"):
        return pa.list_(arrow_type(kind.removeprefix("list:")))
    if kind.startswith("decimal:"):
        precision, scale = map(int, kind.split(":")[1:])
        decimal_type = pa.decimal128 if precision <= 38 else pa.decimal256
        return decimal_type(precision, scale)
    return _TYPES[kind]


def row(*fields: bytes) -> bytes:
    return len(fields).to_bytes(2, "big") + b"".join(fields)


def stream(*rows: bytes) -> bytes:
    return HEAD + b"".join(rows) + END
