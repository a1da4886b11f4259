"""The list of slow tests names tests that exist."""

from __future__ import annotations

from pathlib import Path

from ..suites import AREAS, SlowTests, listed, summary

ROOT = Path(__file__).resolve().parents[2]


def test_every_entry_names_a_test() -> None:
    """If a test is renamed, rename it in the list as well, or measure again."""
    stale = []
    for test in listed().seconds:
        path, *names = test.partition("[")[0].split("::")
        file = ROOT / path
        text = file.read_text() if file.is_file() else ""
        if not text or any(f" {name}(" not in text for name in names if name.islower()):
            stale.append(test)
    assert stale == []


def test_a_test_belongs_to_one_suite() -> None:
    slow = SlowTests(
        [
            "# a comment",
            "  12 tests/faults/test_a.py",
            "   4 tests/nights/test_b.py::test_c except [1]",
            "   3 tests/nights/test_b.py::test_d[x y]",
        ]
    )
    assert slow.has("tests/faults/test_a.py::test_any[1]")
    assert slow.has("tests/nights/test_b.py::test_c[2]")
    assert not slow.has("tests/nights/test_b.py::test_c[1]")
    assert slow.has("tests/nights/test_b.py::test_d[x y]")
    assert not slow.has("tests/nights/test_b.py::test_d[y]")
    assert slow.has_all_of("tests/faults/test_a.py")
    assert slow.has_all_of("tests/airflow/test_any.py")
    assert slow.may_have_one_of("tests/nights/test_b.py")
    assert not slow.may_have_one_of("tests/unit/test_any.py")


def test_areas_select_by_the_name_of_the_database() -> None:
    slow = SlowTests(())
    assert slow.has("tests/contract/test_modes.py::test_x[mysql-append]")
    assert not slow.has("tests/contract/test_modes.py::test_x[duckdb-append]")
    assert not slow.has("tests/contract/test_pairs.py::test_x[mysql-postgresql]")
    assert slow.has("tests/contract/test_pairs.py::test_x[mysql-duckdb]")


def test_the_end_of_a_run_says_what_was_left_out() -> None:
    lines = summary(["a", "b"])
    assert lines[: len(AREAS)] == list(AREAS)
    assert "make test-slow" in lines[-1]
