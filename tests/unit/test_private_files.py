"""Penstock's own files belong to their user, whatever the umask; results follow the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from penstock import CopySpec, copy
from penstock.backends.shared.private_files import make_own_folder
from penstock.cli.output import write_file

OTHERS_WRITE, OTHERS = 0o022, 0o077


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def source(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS id FROM range(5000)")
    return f"duckdb:///{tmp_path}/a.duckdb"


def modes(folder: Path) -> dict[str, int]:
    """Return the modes of files and folders, by their path in the folder."""
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")
    }


class Watched:
    """Modes seen at any moment of a copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: dict[str, int] = {}
        self.folders: set[str] = set()

    def look(self) -> None:
        # Not Path.rglob, which fails if a folder disappears meanwhile.
        for root, folders, files in os.walk(self._folder):
            for path in (Path(root, name) for name in (*folders, *files)):
                try:
                    mode = path.stat().st_mode
                except FileNotFoundError:
                    continue
                self.seen[str(path.relative_to(self._folder))] = mode & 0o777
                if stat.S_ISDIR(mode):
                    self.folders.add(str(path.relative_to(self._folder)))


def copied(source: str, target: str, watched: Watched) -> dict[str, int]:
    spec = CopySpec(source=source, target=target, table="t", mode="recreate", partitions=3)
    for _ in copy(spec):
        watched.look()
    watched.look()
    return watched.seen


@pytest.mark.parametrize("target", ["t", "t/*.csv"])
def test_the_state_of_a_dataset(source: str, tmp_path: Path, target: str) -> None:
    lake = tmp_path / "lake"
    watched = Watched(lake)
    found = copied(source, f"{lake}/{target}", watched)
    state = {path: mode for path, mode in found.items() if "/_penstock/" in path}
    private = {
        path: mode
        for path, mode in state.items()
        if not path.endswith(("manifest.json", ".draft", ".part"))
    }
    assert any("/runs/" in path for path in private)
    files = private.keys() - watched.folders
    assert {path: oct(private[path]) for path in files if private[path] & OTHERS} == {}
    assert {path: oct(mode) for path, mode in private.items() if mode & OTHERS_WRITE} == {}
    # Others may read the dataset, which takes its list of files, and its folders.
    assert found["t/_penstock"] == 0o755
    assert found["t/_penstock/manifest.json"] == 0o644
    data = [mode for path, mode in found.items() if "_penstock" not in path and "-p0" in path]
    assert data
    assert set(data) == {0o666}


def test_the_state_of_a_single_file(source: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    found = copied(source, f"{lake}/t.csv", Watched(lake))
    assert found["t.csv"] == 0o666
    assert found[".t.csv.penstock"] == 0o700


def test_the_folder_beside_a_database(source: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    found = copied(source, f"duckdb:///{lake}/t.duckdb", Watched(lake))
    beside = {path: mode for path, mode in found.items() if path.startswith("t.duckdb.penstock")}
    assert beside
    assert found["t.duckdb.penstock"] == 0o700
    assert {path: oct(mode) for path, mode in beside.items() if mode & OTHERS_WRITE} == {}


def test_a_report(tmp_path: Path) -> None:
    write_file(str(tmp_path / "r.html"), "<html>", "--report")
    assert modes(tmp_path) == {"r.html": 0o644}


def test_folders_that_exist_keep_their_modes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o775)
    make_own_folder(str(tmp_path / "a" / "b" / "c" / "d"), str(tmp_path / "a" / "b"))
    assert modes(tmp_path) == {"a": 0o775, "a/b": 0o755, "a/b/c": 0o755, "a/b/c/d": 0o755}
