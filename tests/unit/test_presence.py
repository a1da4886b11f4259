"""Files of killed processes do not outlive the next process, even if that one enters nothing."""

from __future__ import annotations

from pathlib import Path

from penstock.backends.shared.attempts.presence import Presence


def test_a_process_that_enters_nothing_removes_files_of_dead_ones(tmp_path: Path) -> None:
    folder = tmp_path / "entered"
    folder.mkdir()
    (folder / "0123456789abcdef~run~00000000").touch()
    (folder / "lock").touch()
    Presence(str(folder)).leave()
    assert not folder.exists()


def test_files_of_living_processes_stay(tmp_path: Path) -> None:
    folder = tmp_path / "entered"
    living = Presence(str(folder))
    living.enter({"run": "t"}, lambda run_id, other_run_ids: None)
    Presence(str(folder)).leave()
    assert living.executes("run", "t")
    living.leave()
    assert not folder.exists()


def test_nothing_is_created_by_leaving(tmp_path: Path) -> None:
    Presence(str(tmp_path / "entered")).leave()
    assert not list(tmp_path.iterdir())
