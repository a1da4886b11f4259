"""The trigger that watches a source for an asset, so that new rows or files start a DAG."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import TriggerEvent

import penstock
from penstock import PenstockError, SourceWrites, UsageError, as_arguments
from penstock_airflow.arguments.endpoint import ARGUMENTS, Endpoint
from penstock_airflow.sdk import BaseEventTrigger

SHORTEST = 1.0
"""The shortest interval between two looks, in seconds."""
MOST_FILES = 100
"""How many files an event names."""
_KEY = "penstock_seen_"


class SourceChangedTrigger(BaseEventTrigger):
    """Watches a source, and fires once something new is there: Airflow 3, for an `AssetWatcher`.

    It looks every `poll_interval` seconds, and reads no row. A table has changed if its server has
    counted a write to it, or its rows were rewritten; in a database that is one file, if that file
    has changed; files, if one is new or has another version, and two looks have found it the same,
    so that none is half written. Other sources cannot tell: the log says so, and nothing fires.

    It fires at least once for each change, and once for all changes between two looks. What has
    fired is remembered: in Airflow's state store of the asset (Airflow 3.3 and later), so that a
    restarted triggerer does not fire again for the same state; otherwise by the process alone. The
    first look of all fires if there is anything, unless the last night has read it.

    While the source cannot be reached, the log says so, and the trigger goes on.

    Args:
        source_conn_id, source, source_aws_conn_id: what to watch: an Airflow connection, or a URL
            without secrets and an `aws` connection with its keys.
        table: the table to watch; None for files.
        target_conn_id, target, target_aws_conn_id: for a table, the target into which nights with
            `incremental` load it: what the last night has read does not fire. It is asked when the
            table has changed.
        watermark: the name of the nights' watermark, or of a table that it leads from or to; by
            default the table.
        control_schema: the schema of Penstock's own tables in the target.
        poll_interval: seconds between two looks.

    Raises:
        UsageError: an argument is wrong.
    """

    def __init__(
        self,
        *,
        source_conn_id: str | None = None,
        source: str | None = None,
        source_aws_conn_id: str | None = None,
        table: str | None = None,
        target_conn_id: str | None = None,
        target: str | None = None,
        target_aws_conn_id: str | None = None,
        watermark: str | None = None,
        control_schema: str = "penstock",
        poll_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.source_conn_id = source_conn_id
        self.source = source
        self.source_aws_conn_id = source_aws_conn_id
        self.table = table
        self.target_conn_id = target_conn_id
        self.target = target
        self.target_aws_conn_id = target_aws_conn_id
        self.watermark = watermark
        self.control_schema = control_schema
        self.poll_interval = poll_interval
        self._check()
        self._failure = ""
        """The last failure that was logged; empty if the last look succeeded."""
        self._files: Mapping[str, str] | None = None
        """The versions of the files in the last look, by path; None before the first."""
        self._settled: Mapping[str, str] | None = None
        """Those that were the same in two looks; None before the second."""

    def _check(self) -> None:
        source = Endpoint.of("source", self)
        source.check()
        if source.located is False and self.table is None:
            raise UsageError("table: expected the table to watch, found none")
        if self._has_target:
            Endpoint.of("target", self).check()
            if self.table is None:
                raise UsageError("target_conn_id, target: expected a table whose nights it has")
        if not self.poll_interval >= SHORTEST:
            raise UsageError(
                f"poll_interval: expected at least {SHORTEST:g} s, found {self.poll_interval!r}"
            )

    @property
    def _has_target(self) -> bool:
        return self.target_conn_id is not None or self.target is not None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the classpath and the arguments, as Airflow stores them; no secret is in them."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self._arguments

    @property
    def _arguments(self) -> dict[str, Any]:
        names = (*ARGUMENTS, "table", "watermark", "control_schema", "poll_interval")
        return {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again, and yield an event for each change."""
        seen = stored = await self._remembered()
        while True:
            found = await self._look(seen)
            # Not before the next look: by now Airflow has stored the event. If this process dies in
            # between, it fires again rather than never.
            if seen != stored:
                await self._remember(seen)
                stored = seen
            if found is not None:
                mark, event = self._judged(found, seen)
                if event is not None:
                    yield TriggerEvent(event)  # type: ignore[no-untyped-call]
                seen = mark
            await asyncio.sleep(self.poll_interval)

    async def _look(self, seen: str) -> SourceWrites | None:
        """Look at the source; return None if it cannot be asked."""
        try:
            urls = {"source": await Endpoint.of("source", self).connect_async()}
            if self._has_target:
                urls["target"] = await Endpoint.of("target", self).connect_async()
            found = await asyncio.to_thread(
                _source_writes,
                **urls,
                table=self.table,
                since=seen,
                watermark=self.watermark,
                control_schema=self.control_schema,
            )
        except PenstockError as error:
            self._note_failure(as_arguments(error.message), transient=error.transient)
            return None
        except Exception as error:  # Airflow, or its secrets backend, does not answer
            self._note_failure(f"{type(error).__name__}: {error}", transient=True)
            return None
        if self._failure:
            self.log.info("%s answers again", self._name)
            self._failure = ""
        return found

    def _note_failure(self, message: str, *, transient: bool) -> None:
        """Log a failure once, however often it is repeated."""
        if message != self._failure:
            write = self.log.warning if transient else self.log.error
            write("cannot look at %s, and will try again: %s", self._name, message)
        self._failure = message

    @property
    def _name(self) -> str:
        name = Endpoint.of("source", self).name
        return f"{self.table} in {name}" if self.table else name

    def _judged(self, found: SourceWrites, seen: str) -> tuple[str, dict[str, Any] | None]:
        """Return the mark of what has been seen now, and the payload of an event if it is new.

        Args:
            found: the result of a look.
            seen: the mark of what was seen before; empty if nothing is known.
        """
        event: dict[str, Any] = {"source": self._name, "found": found.text}
        if self.table is not None:
            return found.mark, {**event, "epoch": found.epoch} if found.is_new else None
        if self._files is None:
            self._files = found.files
            return seen, None
        # A file that differs from the last look may still be written to.
        settled = {
            path: version
            for path, version in found.files.items()
            if self._files.get(path) == version
        }
        self._files = found.files
        mark = hashlib.sha256(json.dumps(settled, sort_keys=True).encode()).hexdigest()[:32]
        known, self._settled = self._settled, settled
        if mark == seen:
            return seen, None
        if known is None and seen:
            # Known before this process began, but not by name.
            return mark, {**event, "files": None, "count": None}
        new = sorted(path for path in settled if settled[path] != (known or {}).get(path))
        if not new:
            return mark if known or seen else seen, None
        return mark, {**event, "files": new[:MOST_FILES], "count": len(new)}

    async def _remembered(self) -> str:
        """Return the mark that has fired last; empty if none is known."""
        if (store := self._store) is None:
            return ""
        try:
            return str(await store.aget(self._key, "") or "")
        except Exception as error:
            self.log.warning("cannot read what has fired, so it may fire again: %s", error)
            return ""

    async def _remember(self, mark: str) -> None:
        if (store := self._store) is None:
            return
        try:
            await store.aset(self._key, mark)
        except Exception as error:
            self.log.warning("cannot store what has fired, so it may fire again: %s", error)

    @property
    def _store(self) -> Any:
        """The state store of the watched asset; None before Airflow 3.3."""
        return getattr(self, "asset_state_store", None)

    @property
    def _key(self) -> str:
        """The key in the store: an asset may have several watchers."""
        text = json.dumps({**self._arguments, "poll_interval": None}, sort_keys=True)
        return _KEY + hashlib.sha256(text.encode()).hexdigest()[:16]


def _source_writes(**arguments: Any) -> SourceWrites:
    # Imported here, in a thread: the first time takes a while.
    return penstock.source_writes(**arguments)
