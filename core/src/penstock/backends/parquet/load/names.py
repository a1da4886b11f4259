"""Names of data files and their folders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from secrets import token_hex
from urllib.parse import quote

_DATA = re.compile(
    r"(?P<owner>.+)-(?P<attempt>\d+)-(?P<nonce>[0-9a-f]{12})-(?P<number>\d+)(?P<suffix>\.[a-z.]+)"
)
SUFFIXES = (".parquet", ".parq")
# Hive's name for NULL: https://hive.apache.org/docs/latest/language/languagemanual-ddl/
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def new_nonce(run_id: str) -> str:
    """Return a nonce, unique for each attempt; its first half identifies the run."""
    return _mark(run_id) + token_hex(3)


def _mark(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:6]


def data_name(
    run_id: str, partition_id: str, attempt: int, nonce: str, number: int, suffix: str = ".parquet"
) -> str:
    """Return the name of a data file.

    Args:
        run_id: the run that writes it.
        partition_id: the partition whose rows it holds.
        attempt: the number of the attempt.
        nonce: the attempt's nonce; see `new_nonce`.
        number: the file's number within the attempt, from 0.
        suffix: the format's suffix, including the dot.
    """
    return f"{run_id}-{partition_id}-{attempt}-{nonce}-{number}{suffix}"


def empty_name(run_id: str, suffix: str = ".parquet") -> str:
    """Return the name of the file that only records the columns, if a run has no rows."""
    return data_name(run_id, "empty", 0, _mark(run_id) + "000000", 0, suffix)


def is_empty(path: str) -> bool:
    """Whether a file only records the columns."""
    run_id = run_of(path)
    name = path.rpartition("/")[2]
    return bool(run_id) and name.startswith(empty_name(run_id, "."))


def run_of(path: str) -> str:
    """Return the run that wrote a data file; empty if none did."""
    match = _DATA.fullmatch(path.rpartition("/")[2])
    if match is None:
        return ""
    parts = match["owner"].split("-")
    candidates = ("-".join(parts[:count]) for count in range(1, len(parts)))
    return next((run_id for run_id in candidates if match["nonce"].startswith(_mark(run_id))), "")


def partition_of(path: str, run_id: str) -> str:
    """Return the partition whose rows a file of this run holds, whether it is published or not."""
    return path.rpartition("/")[2].removeprefix(f"{run_id}-").rsplit("-", 3)[0]


def is_data(path: str, suffixes: tuple[str, ...] = SUFFIXES) -> bool:
    """Whether readers of a dataset treat a file as data, by its path within the dataset."""
    return path.lower().endswith(suffixes) and not any(
        part.startswith(("_", ".")) for part in path.split("/")
    )


def folder_of(columns: Collection[str], values: Collection[str | None]) -> str:
    """Return the folder for some values, ``a=1/b=x/``; empty without columns."""
    return "".join(
        f"{quote(column, safe=' ')}={NULL_FOLDER if value is None else quote(value, safe=' ')}/"
        for column, value in zip(columns, values, strict=True)
    )
