"""Names of data files and their folders: the run they belong to, and what readers accept."""

from __future__ import annotations

import pytest

from penstock.backends.parquet.load.names import (
    data_name,
    empty_name,
    folder_of,
    is_data,
    new_nonce,
    run_of,
)


@pytest.mark.parametrize(
    ("run_id", "partition_id"),
    [("r", "p0001"), ("r-p0001", "p0001"), ("r", "p0001-p000"), ("2024-01-02", "a-b.c_d-e")],
)
def test_the_name_of_a_file_has_its_run(run_id: str, partition_id: str) -> None:
    name = data_name(run_id, partition_id, 3, new_nonce(run_id), 0)
    assert run_of(f"day=2024-01-01/{name}") == run_id
    assert run_of(empty_name(run_id)) == run_id


def test_foreign_files_belong_to_no_run() -> None:
    for name in ("part-0.parquet", "r-p-1-0123456789ab-0.parquet", "r.json", ""):
        assert run_of(name) == ""


def test_nonces_do_not_repeat() -> None:
    assert len({new_nonce("r") for _ in range(100)}) == 100


def test_names_of_folders() -> None:
    assert folder_of([], []) == ""
    assert folder_of(["a", "b c"], ["x/y=%", None]) == (
        "a=x%2Fy%3D%25/b c=__HIVE_DEFAULT_PARTITION__/"
    )


def test_hidden_files_are_not_data() -> None:
    assert is_data("a=1/x.parquet")
    assert is_data("x.parq")
    for path in ("_penstock/x.parquet", "a/_b/x.parquet", ".x.parquet", "x.json", "x.parquet.part"):
        assert not is_data(path)
