"""CSV and JSON lines as a source: types inferred from all values, and the values themselves."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import PlanningError, UsageError
from penstock.backends.text.location import parse
from penstock.errors import PenstockError

from .text_files import rows_of, schema_of, table_of, write_file

# The type inferred for a column with these values.
TYPES = {
    "int64": ["0", "-1", "9223372036854775807"],
    "decimal128(38, 0)": ["1", "12345678901234567890"],
    "decimal128(18, 2)": ["1.50", "-0.25", "-0.00"],
    "double": ["1.5", "2", "0.30000000000000004", "1e+20", "NaN", "-Infinity"],
    "bool": ["true", "false"],
    "date32[day]": ["2024-02-29", "0001-01-01"],
    "timestamp[us]": ["2024-01-01 00:00:00", "2024-01-01T10:00:00.123456"],
    "timestamp[us, tz=UTC]": ["2024-01-01 00:00:00Z", "2024-01-01T00:00:00+05:30"],
    "time64[us]": ["00:00:00", "23:59:59.999999"],
    "extension<arrow.uuid>": ["6f1c3b1e-0000-4000-8000-000000000001"],
    "binary": ["\\x00ff", "\\x"],
}
# Columns that only look like other types: as texts, they keep their values.
TEXTS = [
    ["00123", "5"],
    ["+1"],
    ["1,000"],
    [" 1"],
    ["01/02/2024"],
    ["2024-02-30"],
    ["2024-01-01", "2024-01-01 00:00:00"],
    ["2024-01-01 00:00:00.1234567"],
    ["25:00:00"],
    ["t", "f"],
    ["1.5", "1.10"],
    ["0.1234567890123456789", "1"],
    ["1", "x"],
    ["1e400", "1"],
    ["123456789012345678901234567890123456789"],
    ["True", "yes"],
    ["0.50", "-0.00", "1.5"],
    ["1", "2 "],
    ["2024-01-01 00:00:00", "2024-01-01 00:00:60"],
]


@pytest.mark.parametrize("name", TYPES)
def test_inferred_types(tmp_path: Path, name: str) -> None:
    url = write_file(tmp_path / "a.csv", "\n".join(["c,d", *(f"{v},1" for v in TYPES[name]), ",2"]))
    assert schema_of(url) == {"c": name, "d": "int64"}
    assert rows_of(url)[-1] == (None, 2)


@pytest.mark.parametrize("values", TEXTS, ids=lambda values: values[0])
def test_values_in_unusual_notation_are_texts(tmp_path: Path, values: list[str]) -> None:
    url = write_file(tmp_path / "a.csv", "\n".join(["c;d", *(f"{v};1" for v in values)]))
    assert schema_of(f"{url}?delimiter=%3B")["c"] == "string"
    assert [row[0] for row in rows_of(f"{url}?delimiter=%3B")] == values


def test_the_last_value_counts_like_the_first(tmp_path: Path) -> None:
    lines = [*map(str, range(300_000)), "x"]
    url = write_file(tmp_path / "a.csv", "\n".join(["c", *lines]))
    assert schema_of(url) == {"c": "string"}
    assert rows_of(url) == [(line,) for line in lines]


def test_all_columns_can_be_texts_on_request(tmp_path: Path) -> None:
    url = write_file(tmp_path / "a.csv", "a,b\n1,\n1.50,2024-01-01\n")
    assert rows_of(f"{url}?types=text") == [("1", None), ("1.50", "2024-01-01")]


def test_values(tmp_path: Path) -> None:
    url = write_file(
        tmp_path / "a.csv",
        b"\xef\xbb\xbf" + b"id,name,price,at\r\n"
        b'1,"a ""q"", and\nmore",1.50,2024-01-01 00:00:00Z\r\n'
        b'2,"",,\r\n'
        b"3,,2.25,",
    )
    at = datetime(2024, 1, 1, tzinfo=UTC)
    assert rows_of(url) == [
        (1, 'a "q", and\nmore', Decimal("1.50"), at),
        (2, "", None, None),
        (3, None, Decimal("2.25"), None),
    ]


def test_an_empty_line_is_a_null_only_in_a_single_column(tmp_path: Path) -> None:
    assert rows_of(write_file(tmp_path / "a.csv", "a\n1\n\n2\n")) == [(1,), (None,), (2,)]
    assert rows_of(write_file(tmp_path / "b.csv", "a,b\n1,2\n\n3,4\n\n")) == [(1, 2), (3, 4)]


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "\ufeffa,b\r\n"])
def test_a_file_with_only_a_header(tmp_path: Path, content: str) -> None:
    url = write_file(tmp_path / "a.csv", content)
    assert (schema_of(url), rows_of(url)) == ({"a": "string", "b": "string"}, [])


def test_a_file_without_a_header(tmp_path: Path) -> None:
    url = write_file(tmp_path / "a.csv", "1,x\n2,y\n") + "?header=false"
    assert schema_of(url) == {"c1": "int64", "c2": "string"}
    assert rows_of(url) == [(1, "x"), (2, "y")]


def test_a_column_without_a_name(tmp_path: Path) -> None:
    """pandas writes its index like this."""
    assert schema_of(write_file(tmp_path / "a.csv", ",x\n0,a\n")) == {"c1": "int64", "x": "string"}


def test_a_header_of_two_lines(tmp_path: Path) -> None:
    url = write_file(tmp_path / "a.csv", '"a\nb",c\n1,2\n')
    assert (schema_of(url), rows_of(url)) == ({"a\nb": "int64", "c": "int64"}, [(1, 2)])


def test_tabs(tmp_path: Path) -> None:
    assert rows_of(write_file(tmp_path / "a.tsv", "a\tb\n1\tx,y\n")) == [(1, "x,y")]
    assert rows_of(write_file(tmp_path / "b.csv", "a\tb\n1\tx,y\n") + "?delimiter=tab") == [
        (1, "x,y")
    ]


@pytest.mark.parametrize("compression", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_compressed(tmp_path: Path, compression: str, kind: str) -> None:
    """Also in several members, as `cat` and other tools produce."""
    parts = (
        [b"a,b\n", b"1,x\n2,y\n"]
        if kind == "csv"
        else [b'{"a": 1, "b": "x"}\n', b'{"a": 2, "b": "y"}']
    )
    path = tmp_path / f"a.{kind}.{compression}"
    with path.open("wb") as file:
        for part in parts:
            if compression == "gz":
                file.write(gzip.compress(part))
            else:
                sink = pa.BufferOutputStream()
                with pa.CompressedOutputStream(sink, "zstd") as stream:
                    stream.write(part)
                file.write(sink.getvalue())
    assert rows_of(f"file://{path}") == [(1, "x"), (2, "y")]
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(PenstockError, match=rf"a\.{kind}\.{compression}"):
        rows_of(f"file://{path}?types=text")


def test_files_of_one_folder(tmp_path: Path) -> None:
    write_file(tmp_path / "in/a.csv", "a,b\n1,x\n")
    write_file(tmp_path / "in/b.csv.gz", gzip.compress(b"b,a\ny,2\n"))
    write_file(tmp_path / "in/README.md", "no rows")
    assert rows_of(f"file://{tmp_path}/in/?format=csv") == [(1, "x"), (2, "y")]
    assert rows_of(f"file://{tmp_path}/in/*.csv") == [(1, "x")]
    assert rows_of(f"file://{tmp_path}/in/a.csv,file://{tmp_path}/in/b.csv.gz") == [
        (1, "x"),
        (2, "y"),
    ]


def test_a_type_fits_the_values_of_all_files(tmp_path: Path) -> None:
    write_file(tmp_path / "a.csv", "a\n1\n")
    write_file(tmp_path / "b.csv", "a\nx\n")
    assert rows_of(f"file://{tmp_path}/*.csv") == [("1",), ("x",)]


def test_columns_named_by_folders(tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        write_file(tmp_path / f"day={day}/a.csv", "a\n1\n")
    assert rows_of(f"file://{tmp_path}/**/*.csv") == [
        (1, date(2024, 1, 1)),
        (1, date(2024, 1, 2)),
    ]


def test_a_long_row(tmp_path: Path) -> None:
    """The row is longer than the parser's blocks, and follows rows that were already returned."""
    long = "x" * (9 << 20)
    numbers = range(600_000)
    content = "\n".join(["a,b", *(f"{n},y{n}" for n in numbers), f"-1,{long}", "-2,z"])
    found = table_of(write_file(tmp_path / "a.csv", content))
    assert found["a"].to_pylist() == [*numbers, -1, -2]
    assert found["b"][-2].as_py() == long


@pytest.mark.parametrize("value", ["ab", 'a,"\n'])
def test_a_long_first_row_without_a_header(tmp_path: Path, value: str) -> None:
    """The names of the columns come from the first row, which is longer than a piece."""
    long = value * (3 << 19)
    quoted = '"' + long.replace('"', '""') + '"'
    url = write_file(tmp_path / "a.csv", f"1,{quoted}\n2,b\n") + "?header=false"
    assert rows_of(url) == [(1, long), (2, "b")]


@pytest.mark.parametrize("before", range(3))
def test_line_breaks_of_values_wherever_a_block_ends(tmp_path: Path, before: int) -> None:
    """The parser reads blocks of 4 MiB, which may end between a carriage return and a line feed."""
    text = "\r\n\r" * (1 << 20)
    url = write_file(tmp_path / "a.csv", f'a,b\n{"1" * (before + 1)},"{text}"\n2,"{text}"\n')
    assert table_of(url)["b"].to_pylist() == [text, text]


def test_the_row_of_a_quote_among_many_others(tmp_path: Path) -> None:
    many = '""' * (3 << 20)
    content = f'a,b\n1,"{many}"\n2,"{many}\n3,c\n'
    with pytest.raises(PenstockError, match=r"a\.csv: row 3: a quote .* is not closed"):
        rows_of(write_file(tmp_path / "a.csv", content))


def test_random_csv(tmp_path: Path) -> None:
    """All values are read as written."""
    draw = random.Random(5)
    alphabet = ["a", '"', ",", "\n", "\r", "ü", " ", "\\", "0", "\t"]
    rows = [
        [
            None if draw.random() < 0.2 else "".join(draw.choices(alphabet, k=draw.randrange(6)))
            for _ in "abc"
        ]
        for _ in range(3000)
    ]

    def value(text: str | None) -> str:
        return "" if text is None else '"' + text.replace('"', '""') + '"'

    lines = ["a,b,c", *(",".join(map(value, row)) for row in rows)]
    url = write_file(tmp_path / "a.csv", "\n".join(lines)) + "?types=text"
    assert rows_of(url) == [tuple(row) for row in rows]


# JSON lines


@pytest.mark.usefixtures("both_paths")
def test_json_lines(tmp_path: Path) -> None:
    url = write_file(
        tmp_path / "a.jsonl",
        '{"id": 9007199254740993, "n": 1.10, "t": "x\\u00e9\\n", "o": {"k": [1, 2.50, null]},'
        ' "b": true}\n'
        "\n"
        '{"id": 2, "n": 2.20, "t": null, "new": "2024-01-01"}\r\n'
        '{"o": "text", "f": 1e-7, "d": "NaN", "big": 123456789012345678901}\n'
        '{"f": 2.5, "d": 1.5}',
    )
    assert schema_of(url) == {
        "id": "int64",
        "n": "decimal128(18, 2)",
        "t": "string",
        "o": "string",
        "b": "bool",
        "new": "date32[day]",
        "f": "double",
        "d": "double",
        "big": "decimal128(38, 0)",
    }
    table = table_of(url)
    assert table["id"].to_pylist() == [9007199254740993, 2, None, None]
    assert table["n"].to_pylist() == [Decimal("1.10"), Decimal("2.20"), None, None]
    assert table["t"].to_pylist() == ["xé\n", None, None, None]
    # Nested values remain JSON, whatever other values the column has.
    assert table["o"].to_pylist() == ['{"k": [1, 2.50, null]}', None, '"text"', None]
    assert table["big"].to_pylist() == [None, None, 123456789012345678901, None]


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (["1", '"1"'], ["1", "1"]),
        (['"1"', '"2"'], ["1", "2"]),
        (["true", '"yes"'], ["true", "yes"]),
        (["true", "1"], ["true", "1"]),
        (['"true"'], ["true"]),
    ],
)
def test_json_values_of_several_kinds_are_texts(
    tmp_path: Path, values: list[str], texts: list[str]
) -> None:
    url = write_file(tmp_path / "a.ndjson", "\n".join(f'{{"a": {value}}}' for value in values))
    assert schema_of(url) == {"a": "string"}
    assert [row[0] for row in rows_of(url)] == texts


# Rejected files: each message says where the error is, and what to do

BAD: dict[str, tuple[str, str | bytes, str]] = {
    "ragged": ("a.csv", "a,b\n1,2\n3\n", r"a\.csv: row 3: expected 2 values.*found 1"),
    "too many": ("a.csv", "a,b\n1,2\n3,4,5\n", r"a\.csv: row 3: expected 2 values.*found 3"),
    "not closed": ("a.csv", 'a,b\n1,2\n3,"4\n5,6\n', r"a\.csv: .*is not closed"),
    "two columns": ("a.csv", "a,b,a\n1,2,3\n", r"a\.csv: its header has two columns 'a'"),
    "empty": ("a.csv", "", r"expected columns, found none: .*a\.csv without a header"),
    "no objects": ("a.jsonl", "\n", r"expected columns, found none: .*a\.jsonl without objects"),
    "latin1": ("a.csv", b"a,b\n1,x\n2,\xe9\n", r"a\.csv: row 3, column 'b': expected UTF-8"),
    "utf16": ("a.csv", "a,b\n1,2\n".encode("utf-16"), r"a\.csv: expected UTF-8, found UTF-16"),
    "json latin1": ("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n', r"a\.jsonl: line 2: expected UTF-8"),
    "no json": ("a.jsonl", '{"a": 1}\n{"a": 1,}\n', r"a\.jsonl: line 2: expected a JSON object"),
    "a key without a name": (
        "a.jsonl",
        '{"a": 1}\n{"" : 1}\n',
        r"a\.jsonl: line 2: a key is empty",
    ),
    "two objects": ("a.jsonl", '{"a": 1} {"a": 2}\n', r"a\.jsonl: line 1: expected a JSON object"),
    "half": ("a.jsonl", '\n\n{"a": "\\ud800"}\n', r"a\.jsonl: line 3, key 'a': .* half of a surr"),
    "half a key": ("a.jsonl", '{"\\ud800": 1}\n', r"a\.jsonl: line 1, key '.*ud800': .* half of"),
    "an array": ("a.jsonl", "[1]\n", r"a\.jsonl: line 1: expected a JSON object.*jq"),
    "NaN": ("a.jsonl", '{"a": NaN}\n', r"a\.jsonl: line 1: .*JSON has no NaN"),
    "no gzip": ("a.csv.gz", "a,b\n1,2\n", r"a\.csv\.gz: cannot be read as CSV"),
    "no zstd": ("a.jsonl.zst", "{}", r"a\.jsonl\.zst: cannot be read as JSON lines"),
}


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path: Path, name: str) -> None:
    file, content, message = BAD[name]
    with pytest.raises(PenstockError, match=message):
        rows_of(write_file(tmp_path / file, content))


def test_errors_in_late_rows_have_the_right_row_number(tmp_path: Path) -> None:
    lines = [f"{n},x" for n in range(700_000)]
    lines[600_000] = "only"
    with pytest.raises(PenstockError, match=r"row 600,002: expected 2 values"):
        rows_of(write_file(tmp_path / "a.csv", "\n".join(["a,b", *lines])))


def test_files_with_other_columns(tmp_path: Path) -> None:
    write_file(tmp_path / "a.csv", "a,b\n1,2\n")
    write_file(tmp_path / "b.csv", "a,c\n1,2\n")
    with pytest.raises(PlanningError, match=r"b\.csv lacks 'b' and adds 'c', compared with"):
        rows_of(f"file://{tmp_path}/*.csv")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///a.csv?header=maybe", "header: expected true or false"),
        ("file:///a.csv?delimiter=ab", "delimiter: expected tab or one ASCII character"),
        ("file:///a.csv?types=int", "types: expected 'text', which"),
        ("file:///a.jsonl?header=false", "'header' applies to CSV only"),
        ("file:///a.csv.bz2", r"found \.bz2"),
        ("file:///a.csv,file:///b.jsonl", "expected files of one format"),
        ("file:///in/?format=xml", "format: expected csv"),
    ],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(url, "--source")


@pytest.mark.usefixtures("both_paths")
def test_numbers_and_strings_as_written(tmp_path: Path) -> None:
    """Whatever else is in the column, and however the lines around them are written."""
    cells = [
        "1.10", "-0", "1e400", "1" * 30, '"\\u00e9\\ud83d\\ude00\\n"', "null", '"null"', "true",
        '"a,\\"b"', '""', '"\\\\"', "0.0", '"\\u0000"', "-1E+05",
    ]  # fmt: skip
    lines = [f' {{"a" :{cell} ,"b":1,"b": 2}}\r' for cell in cells]
    lines[3:3] = ["", " \t\r", '{"b": 3, "c": {"x": "\\ud800"}}', '{"\\u0061": "escaped"}']
    url = write_file(tmp_path / "a.jsonl", "\n".join(lines))
    table = table_of(url)
    assert table["a"].to_pylist() == [
        *("1.10", "-0", "1e400", None, "escaped", "1" * 30, "é😀\n", None, "null", "true"),
        *('a,"b', "", "\\", "0.0", "\x00", "-1E+05"),
    ]
    assert table["b"].to_pylist() == [2, 2, 2, 3, None] + [2] * 11
    assert table["c"][3].as_py() == '{"x": "\\ud800"}'


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[1.10,-0, 1e5,1E400]", "[1.10, -0, 1e5, 1E400]"),
        ('{"b":2,"a":1,"b":3.0}', '{"b": 3.0, "a": 1}'),
        ('["\\u00e9\\/","\\ud800"]', '["é/", "\\ud800"]'),
        (f"[{'7' * 5000}]", f"[{'7' * 5000}]"),
        ("[ true,null , [ ] ,{ }]", "[true, null, [], {}]"),
        ("[" * 3000 + "]" * 3000, "[" * 3000 + "]" * 3000),
    ],
    ids=range(6),
)
def test_nested_json(tmp_path: Path, written: str, text: str) -> None:
    url = write_file(tmp_path / "a.jsonl", f'{{"a": {written}}}\n{{"a": "x"}}\n')
    assert rows_of(url) == [(text,), ('"x"',)]


@pytest.mark.usefixtures("both_paths")
def test_errors_in_late_lines_have_the_right_line_number(tmp_path: Path) -> None:
    lines = ['{"a": 1}', ""] * 400_000
    lines[700_000] = '{"a": }'
    with pytest.raises(PenstockError, match=r"line 700,001: expected a JSON object"):
        rows_of(write_file(tmp_path / "a.jsonl", "\n".join(lines)))


@pytest.mark.usefixtures("both_paths")
def test_a_long_line(tmp_path: Path) -> None:
    long = "ü" * (5 << 20)
    lines = [json.dumps({"a": text}) for text in ("b", long, "c")]
    url = write_file(tmp_path / "a.jsonl", "\n".join(lines))
    assert rows_of(url) == [("b",), (long,), ("c",)]


@pytest.mark.usefixtures("both_paths")
def test_json_of_the_standard_library_agrees(tmp_path: Path) -> None:
    draw = random.Random(7)
    alphabet = ["a", '"', "\\", "\n", "\x00", "\u2028", "ü", "😀", "/"]
    rows = [{"a": "".join(draw.choices(alphabet, k=5)), "b": [n, {"c": None}]} for n in range(999)]
    url = write_file(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert rows_of(url) == [(row["a"], json.dumps(row["b"])) for row in rows]


@pytest.mark.usefixtures("both_paths")
def test_objects_without_keys(tmp_path: Path) -> None:
    empty = "{}\n" * (3 << 20)  # more than a block
    url = write_file(tmp_path / "a.jsonl", f'{{"a": 1}}\n{empty}{{"a": 2}}')
    column = table_of(url)["a"]
    assert len(column) == (3 << 20) + 2
    assert column.drop_null().to_pylist() == [1, 2]
    url = write_file(tmp_path / "b.jsonl", empty[:30])
    with pytest.raises(PlanningError, match=r"found none: .* without objects"):
        rows_of(url)
