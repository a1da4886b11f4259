"""A hundred damaged files of each format: read, or refused in one line that names the file.

They are drawn from a seed, so that a failure can be repeated.
"""

from __future__ import annotations

import gzip
import io
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.backends.parquet.source import ParquetSource
from penstock.errors import PermanentError, PlanningError

from .text_files import rows_of

FILES = 100
CSV = (
    'id,name,price,at\r\n1,"a ""q"", and\nmore",1.50,2024-01-01 00:00:00Z\n2,"",,\n'
    '3,5" disk,2.25,\n4,ü,1e3,2024-02-30\n'
).encode()
LINES = (
    b'{"id": 1, "n": 1.10, "t": "x\\u00e9\\n", "o": {"k": [1, 2.50, null]}, "b": true}\n'
    b'\n{"id": 2, "t": "\\ud83d\\ude00", "o": "x"}\r\n{"f": 1e-7, "d": "NaN"}'
)


def parquet() -> bytes:
    sink = io.BytesIO()
    table = pa.table(
        {
            "n": pa.array([1, None, 3] * 50),
            "t": pa.array(["x", "ü", None] * 50),
            "d": pa.array([1, 2, None] * 50, pa.timestamp("us", "UTC")),
            "l": pa.array([[1], [], None] * 50),
        }
    )
    pq.write_table(table, sink, row_group_size=40)
    return sink.getvalue()


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue().to_pybytes())


PARTS = [
    b'"', b'""', b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\r\n",
    b"\n", b",", b",,,,", b"{", b"}", b"[" * 3000, b"{\"a\":" * 2000, b'"\\ud800"',
    b'{"\\udc00": 1}\n', b'{"": 1}\n', b'{"a": "\\u0000"}\n', b'{"a": 1, "a": 2}\n', b"x" * 300_000,
    b'"' + b"y\n" * 90_000,
    b"9" * 5000, b"NaN", b"-", b'{"a": -0.0e+99999}\n', "é".encode("latin-1"), "a".encode("utf-16"),
    b",".join(b"c%d" % n for n in range(1500)) + b"\n", b"name,name\n", b"a" * 80 + b",\n", b"\\",
]  # fmt: skip


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return content that is truncated, or in which bytes are flipped, removed, or added."""
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(content) + 1)
        kind = draw.randrange(6)
        if kind == 0:
            content = content[:at]
        elif kind == 1 and content:
            at = min(at, len(content) - 1)
            flipped = bytes([content[at] ^ (1 << draw.randrange(8))])
            content = content[:at] + flipped + content[at + 1 :]
        elif kind == 2:
            content = content[:at] + content[at + draw.randrange(20) :]
        elif kind == 3:
            content = content[:at] + content[max(0, at - 50) : at] + content[at:]
        else:
            content = content[:at] + draw.choice(PARTS) + content[at:]
    return content


def read_text(path: Path) -> None:
    rows_of(f"file://{path}")


def read_parquet(path: Path) -> None:
    source = ParquetSource(f"file://{path}")
    try:
        for _ in source._scan.batches(source._files.parts, source._schema.names):
            pass
        source._session.fetch("SELECT count(n) FROM source", "rows")
    finally:
        source.close()


Pack = Callable[[bytes], bytes]
FORMATS: dict[str, tuple[bytes, Pack, Callable[[Path], None]]] = {
    "csv": (CSV, bytes, read_text),
    "tsv": (CSV.replace(b",", b"\t"), bytes, read_text),
    "jsonl": (LINES, bytes, read_text),
    "csv.gz": (CSV, gzip.compress, read_text),
    "jsonl.gz": (LINES, gzip.compress, read_text),
    "csv.zst": (CSV, zstd, read_text),
    "jsonl.zst": (LINES, zstd, read_text),
    "parquet": (parquet(), bytes, read_parquet),
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_damaged_files_end_in_one_line(tmp_path: Path, suffix: str) -> None:
    content, pack, read = FORMATS[suffix]
    refused = 0
    for seed in range(FILES):
        draw = random.Random(f"{suffix} {seed}")
        # Both the content and the archive around it are damaged.
        damaged = pack(mutated(content, draw))
        if pack is not bytes and draw.random() < 0.5:
            damaged = mutated(damaged, draw)
        path = tmp_path / f"f{seed}.{suffix}"
        path.write_bytes(damaged)
        try:
            read(path)
        except (PermanentError, PlanningError) as error:
            refused += 1
            message = str(error)
            assert path.name in message, (seed, message)
            assert "\n" not in message, (seed, message)
            assert not re.search("Traceback|straddling", message), (seed, message)
            assert len(message) < 1000, (seed, message)
            if suffix in ("csv", "tsv", "jsonl"):
                place = re.search(r"(row|line) [\d,]+|its header|found none|UTF-16", message)
                assert place, (seed, message)
            message.encode()
    assert 10 < refused <= FILES
