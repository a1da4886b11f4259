"""JSON lines split by `penstock_native` and by Python: the same columns, or the same error."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pytest

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files import json_rows
from penstock.backends.text.files.json_rows import Choice, groups
from penstock.backends.text.files.streams import TextStream

from .test_mutated_files import LINES, mutated

native = pytest.importorskip("penstock_native", reason="no cargo: penstock-native is not built")

CHOICES: dict[str, Choice | None] = {
    "all": None,
    "some": {"t": False, "o": True, "n": False, "lacking": False},
    "none": {},
}
# Lines that native code reads itself.
PLAIN = [
    '{"n": 1.10, "t": "a", "o": {"k": [1, 2.50, null]}}',
    '{"n":-0,"t":"\\u00e9\\ud83d\\ude00\\n\\"\\\\\\/","o":[]}',
    ' {"t" :\t"" , "n" : 1E400 } \r',
    '{"o": "\\u0000x", "n": null, "t": "\u2028ü😀"}',
    '{"\\u0074": "escaped key", "n": "NaN"}',
    '{"n": "Infinity", "o": true, "t": false}',
    '{"n": "-Infinity", "o": {"a": 1, "a": 2.0, "h": "\\udc00"}}',
    f'{{"n": {"7" * 5000}, "o": {"[" * 50}1{"]" * 50}}}',
    '{"ü": 1, "t": "null", "n": 0.0e-0}',
    "{}",
    "\n \t\r\n{}",
    '{"o": [ 1 ,\r2 , { } ] }',
    f'{{"o": {"[" * 3000}\r{"]" * 3000}}}',
]
# Lines that Python's parser reads, or refuses.
UNUSUAL = [
    '{"n": 1, "n": 2}', '{"t": "\\ud800"}', '{"skipped": "\\ud800"}', '{"o": "\\udc00\\ud800"}',
    '{"\\ud800": 1}', '{"": 1}', "[1]", "1", "null", '"x"', '{"n": 01}', '{"n": +1}', '{"n": 1.}',
    '{"n": .5}', '{"n": 1e}', '{"n": NaN}', '{"n": 1,}', '{"n" 1}', '{"n": 1} {}', '{"n": 1}}',
    '{"t": "\x01"}', '{"t": "\\x"}', '{"t": "\\u12"}', '{"t": "', '{"n": tru}', "{'n': 1}", "\x0b",
    '{"n": 1} # no', '{n: 1}', '{"o": [1}', '{"o": {"k"}}', "\x00", "\ufeff{}", '{"n": 0x1}',
]  # fmt: skip


def read(content: bytes, choice: Choice | None) -> Any:
    """Return the rows and columns of each group, or the error."""
    stream = TextStream(pa.PythonFile(io.BytesIO(content), mode="r"))
    try:
        return [shown(group, choice) for group in groups(lambda: stream, choice)]
    except Broken as error:
        return str(error)


def shown(group: json_rows.Group, choice: Choice | None) -> Any:
    columns = []
    for name, (texts, kinds) in group.columns.items():
        texts.validate(full=True)
        is_nested = json_rows.NESTED in kinds
        # If all columns are looked at, only the fact that a value is nested matters.
        columns.append((name, "nested" if choice is None and is_nested else texts.to_pylist()))
        if choice is None:
            columns.append((name, [] if is_nested else sorted(kinds)))
    return group.rows, columns


def same(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for choice in CHOICES.values():
        found = read(content, choice)
        with monkeypatch.context() as patched:
            patched.setattr(json_rows, "native", lambda: None)
            assert found == read(content, choice)


@pytest.mark.parametrize("line", PLAIN, ids=range(len(PLAIN)))
def test_plain_lines(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.json_columns(f"{line}\n".encode(), None, []) is not None
    same(line.encode(), monkeypatch)
    same("\n".join([*PLAIN, line, *PLAIN]).encode(), monkeypatch)


@pytest.mark.parametrize("line", UNUSUAL, ids=range(len(UNUSUAL)))
def test_unusual_lines(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.json_columns(f"{line}\n".encode(), None, []) is None
    assert native.json_columns(f"{line}\n".encode(), ["n", "lacking"], [False]) is None
    same(line.encode(), monkeypatch)
    same("\n".join([*PLAIN, line, *PLAIN]).encode(), monkeypatch)


def test_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b'{"t": "\xe9"}\n', b'{"t": "\xed\xa0\x80"}\n', b'{"\xff": 1}\n'):
        assert native.json_columns(content, None, []) is None
        same(b"{}\n" + content, monkeypatch)


def test_a_nested_value_where_none_was_planned() -> None:
    content = b'{"a": [1.0 ,2]}\n{"a": "x"}\n'
    assert native.json_columns(content, ["a"], [False]) is None
    assert read(content, {"a": False}) == [(2, [("a", ["[1.0, 2]", '"x"'])])]


def test_keys_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(11)
    lines = []
    for _ in range(500):
        keys = draw.sample("abcdefghij", draw.randrange(10))
        lines.append("{" + ", ".join(f'"{key}": {draw.randrange(99)}' for key in keys) + "}")
    same("\n".join(lines).encode(), monkeypatch)
    ((rows, _),) = read("\n".join(lines).encode(), None)
    assert rows == 500


@pytest.mark.parametrize("seed", range(20))
def test_damaged_lines(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    for _ in range(50):
        same(mutated(LINES, draw), monkeypatch)
