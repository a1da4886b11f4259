"""The files that a URL selects, and the columns of their folders."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from penstock.backends.parquet.files.footers import key_fields
from penstock.backends.parquet.files.listing import ListedFile, fingerprint, list_files
from penstock.backends.parquet.files.types import key_value
from penstock.backends.parquet.location import parse
from penstock.errors import PlanningError, UsageError

FILES = [
    "a.parquet",
    "b1.parquet",
    "b2.parquet",
    "c.txt",
    "_SUCCESS",
    ".a.parquet.crc",
    "x*y.parquet",
    "day=2024-01-01/p.parquet",
    "day=2024-01-02/p.parquet",
    "day=2024-01-02/q.parquet",
    "deep/er/d.parquet",
    "_penstock/runs/e.parquet",
    "deep/.hidden/f.parquet",
    "_part=1/g.parquet",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def names(folder: Path, *patterns: str) -> list[str]:
    url = ",".join(f"file://{folder}/{pattern}" for pattern in patterns)
    return [os.path.relpath(file.path, folder) for file in list_files(parse(url, "--source"))]


VISIBLE = sorted(
    name for name in FILES if not any(p in name for p in ("_SUCCESS", "_penstock", ".crc", ".hid"))
)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([""], VISIBLE),
        (["**"], VISIBLE),
        (["*.parquet"], ["a.parquet", "b1.parquet", "b2.parquet", "x*y.parquet"]),
        (["b[1].parquet"], ["b1.parquet"]),
        (["b[!1].parquet"], ["b2.parquet"]),
        (["x%2Ay.parquet"], ["x*y.parquet"]),
        (["day=*/p.parquet"], ["day=2024-01-01/p.parquet", "day=2024-01-02/p.parquet"]),
        (["day=2024-01-02"], ["day=2024-01-02/p.parquet", "day=2024-01-02/q.parquet"]),
        (["day=*-02/"], ["day=2024-01-02/p.parquet", "day=2024-01-02/q.parquet"]),
        (["**/d.parquet"], ["deep/er/d.parquet"]),
        (["deep/**/*.parquet"], ["deep/er/d.parquet"]),
        (["_penstock/runs/*"], ["_penstock/runs/e.parquet"]),
        (["b*.parquet", "b1.parquet", "a.parquet"], ["a.parquet", "b1.parquet", "b2.parquet"]),
    ],
)
def test_patterns_select_files(folder: Path, patterns: list[str], expected: list[str]) -> None:
    assert names(folder, *patterns) == expected


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("nothing/*", "no folder {}/nothing"),
        ("a.parquet/", "no folder {}/a.parquet"),
        ("*.pqt", "none (names that"),
        ("[x]", "none (names that"),
        ("{a, b}.parquet", "none (names that"),
    ],
)
def test_an_error_without_a_match_names_the_pattern(
    folder: Path, pattern: str, problem: str
) -> None:
    with pytest.raises(PlanningError) as caught:
        names(folder, "a.parquet", quote(pattern, "/*[]"))
    expected = f"file://{folder}/{pattern}: expected at least one file, found "
    assert expected + problem.format(folder) in caught.value.message


def test_an_invalid_pattern_is_rejected(folder: Path) -> None:
    with pytest.raises(
        UsageError, match=r"data/\[z-a\]\.parquet: expected a pattern with brackets such as"
    ):
        names(folder, "[z-a].parquet")


def test_the_fingerprint_changes_with_a_file(folder: Path) -> None:
    def now() -> str:
        return fingerprint(list_files(parse(f"file://{folder}", "--source")))

    before = now()
    assert now() == before
    os.utime(folder / "a.parquet", ns=(1, 1))
    touched = now()
    (folder / "new.parquet").write_bytes(b"")
    assert len({before, touched, now()}) == 3


def listed(*paths: str) -> list[ListedFile]:
    return [ListedFile(path, 1, "v") for path in paths]


@pytest.mark.parametrize(
    ("paths", "name", "type_", "values"),
    [
        (["b/n=1/x", "b/n=-20/x"], "n", pa.int64(), [1, -20]),
        (["b/n=01/x", "b/n=2/x"], "n", pa.string(), ["01", "2"]),
        (["b/d=2024-02-29/x"], "d", pa.date32(), [datetime.date(2024, 2, 29)]),
        (["b/d=2023-02-29/x"], "d", pa.string(), ["2023-02-29"]),
        (["b/s=a%2Fb%3D/x"], "s", pa.string(), ["a/b="]),
        (["b/n=__HIVE_DEFAULT_PARTITION__/x", "b/n=7/x"], "n", pa.int64(), [None, 7]),
        (["b/n=/x"], "n", pa.string(), [""]),
    ],
)
def test_folders_become_columns(
    paths: list[str], name: str, type_: pa.DataType, values: list[object]
) -> None:
    files = listed(*paths)
    (field,) = key_fields(files)
    assert (field.name, field.type, field.nullable) == (name, type_, None in values)
    assert [key_value(file.keys[name], type_).as_py() for file in files] == values


def test_only_the_folders_directly_above_a_file_become_columns() -> None:
    (file,) = listed("/home/run=5/data/day=1/hour=2/x.parquet")
    assert file.keys == {"day": "1", "hour": "2"}
    assert list(file.keys) == ["day", "hour"]
