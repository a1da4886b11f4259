"""The trigger that watches a source, with real files and without Airflow's triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import UsageError

if TYPE_CHECKING:
    from penstock_airflow import SourceChangedTrigger


class Store:
    """Airflow's state store of an asset, which survives the triggerer."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


def make(**arguments: Any) -> SourceChangedTrigger:
    # Importing it when tests are collected would import Airflow.
    trigger: SourceChangedTrigger = import_module("penstock_airflow").SourceChangedTrigger(
        **arguments
    )
    return trigger


def events(
    trigger: SourceChangedTrigger, *changes: Callable[[], object], store: Store | None = None
) -> list[Any]:
    """Return the payloads of a trigger that looks twice after each change."""
    trigger.asset_state_store = store  # type: ignore[assignment]
    trigger.poll_interval = 0.05
    found: list[Any] = []

    async def watch() -> None:
        async def collect() -> None:
            async for event in trigger.run():
                found.append(event.payload)

        task = asyncio.create_task(collect())
        await asyncio.sleep(1.0)
        for change in changes:
            await asyncio.to_thread(change)
            await asyncio.sleep(0.6)
        task.cancel()

    asyncio.run(watch())
    return found


def watching(folder: Path) -> SourceChangedTrigger:
    return make(source=f"{folder}/*.csv")


def test_new_and_changed_files_fire_once_each(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    found = events(
        watching(tmp_path),
        lambda: one.write_text("a\n1\n"),
        lambda: two.write_text("a\n2\n"),
        lambda: one.write_text("a\n1\n1\n"),
        two.unlink,
    )
    assert [each["files"] for each in found] == [[str(one)], [str(two)], [str(one)]]
    assert [each["count"] for each in found] == [1, 1, 1]


def test_a_file_that_is_being_written_does_not_fire(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    looks = 0

    async def grow() -> int:
        nonlocal looks
        trigger, count = watching(tmp_path), 0
        trigger.poll_interval = 0.0
        original = trigger._look

        async def look(seen: str) -> Any:
            nonlocal looks
            looks += 1
            if looks < 20:
                path.write_text("a\n" + "1\n" * looks)
            return await original(seen)

        trigger._look = look  # type: ignore[method-assign]
        async for _ in trigger.run():
            return looks
        return count

    assert asyncio.run(grow()) == 20


def test_a_restarted_trigger_does_not_fire_again(tmp_path: Path) -> None:
    store = Store()
    (tmp_path / "one.csv").write_text("a\n1\n")
    assert len(events(watching(tmp_path), store=store)) == 1
    assert events(watching(tmp_path), store=store) == []
    (tmp_path / "two.csv").write_text("a\n2\n")
    (found,) = events(watching(tmp_path), store=store)
    assert found["files"] is None


def test_without_a_store_it_fires_once_more(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("a\n1\n")
    assert len(events(watching(tmp_path))) == 1
    assert len(events(watching(tmp_path))) == 1


def test_a_source_that_is_down_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    trigger = make(source="postgres://127.0.0.1:1/nothing", table="public.orders")
    assert events(trigger) == []
    logged = "".join(capsys.readouterr())
    assert logged.count("will try again") == 1


def test_it_is_restored_from_its_arguments(tmp_path: Path) -> None:
    trigger = make(
        source_conn_id="src", target_conn_id="dst", table="public.orders", poll_interval=5.0
    )
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(import_module(module), name)(**arguments)
    assert again.serialize() == (path, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "source"),
        ({"source": "/in/", "target_conn_id": "dst"}, "expected a table whose nights"),
        ({"source_conn_id": "src"}, "expected the table to watch"),
        ({"source": "postgres://u:secret@h/d", "table": "t"}, "without secrets"),
        ({"source": "/in/", "poll_interval": 0.1}, "expected at least 1 s"),
    ],
)
def test_mistakes_are_found_when_a_dag_is_parsed(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        make(**arguments)
    assert "secret@" not in caught.value.message
