"""Dagster's runs and backfills, and their operations. Every wait has a limit in seconds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from penstock_testkit.dagster.graphql import GraphQL
from penstock_testkit.waiting import until

FINISHED = ("SUCCESS", "FAILURE", "CANCELED")
OVER = ("COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED")
PAGE = 500
ERROR = "... on Error { message }"
METADATA = """
    metadataEntries {
        label
        ... on IntMetadataEntry { intRepr }
        ... on FloatMetadataEntry { floatValue }
        ... on TextMetadataEntry { text }
        ... on MarkdownMetadataEntry { mdStr }
        ... on JsonMetadataEntry { jsonString }
        ... on TableSchemaMetadataEntry { schema { columns { name type } } }
        ... on PythonArtifactMetadataEntry { module name }
    }
"""


@dataclass(frozen=True)
class Materialization:
    """A materialization event of a partition or a whole asset."""

    asset: str
    """The asset's key, such as ``dw/orders``."""
    partition: str | None
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Event:
    """An entry of a run's log."""

    kind: str
    """The type's name in GraphQL, such as ``ExecutionStepFailureEvent``."""
    message: str
    error: str
    """The messages of an error and its causes; empty if there is no error."""


@dataclass(frozen=True)
class Run:
    """A Dagster run."""

    graphql: GraphQL
    run_id: str

    @property
    def status(self) -> str:
        """``QUEUED``, ``STARTED``, ``SUCCESS``, ``FAILURE``, ``CANCELED``, ..."""
        return str(self._ask("status")["status"])

    @property
    def tags(self) -> dict[str, str]:
        return {tag["key"]: tag["value"] for tag in self._ask("tags { key value }")["tags"]}

    def wait(self, statuses: Collection[str] = FINISHED, timeout: float = 180) -> str:
        """Wait until the run has one of some statuses, and return it.

        Raises:
            TimeoutError: the time ran out; the message ends with the run's log.
        """
        return until(
            lambda: status if (status := self.status) in statuses else None,
            timeout,
            lambda: f"run {self.run_id} is {self.status}, expected {statuses}\n{self.log()}",
        )

    def ended(self, status: str, timeout: float = 180) -> None:
        """Wait for the end of the run.

        Raises:
            AssertionError: the run ended with another status; the message ends with its log.
        """
        actual = self.wait(timeout=timeout)
        assert actual == status, f"expected {status}, found {actual}\n{self.log()}"

    def materializations(self) -> list[Materialization]:
        """Return the run's materialization events so far, in order."""
        query = f"assetMaterializations {{ assetKey {{ path }} partition {METADATA} }}"
        return [
            Materialization(
                asset="/".join(one["assetKey"]["path"]),
                partition=one["partition"],
                metadata=dict(map(entry, one["metadataEntries"])),
            )
            for one in self._ask(query)["assetMaterializations"]
        ]

    def partitions(self) -> list[str | None]:
        """Return the materialized partitions, sorted, with repetitions."""
        return sorted((one.partition for one in self.materializations()), key=str)

    def events(self) -> Iterator[Event]:
        """Return the run's log."""
        cursor: str | None = None
        more = True
        while more:
            error = "message causes { message causes { message } }"
            page = self._ask(
                "eventConnection(afterCursor: $cursor, limit: $limit) { cursor hasMore events {"
                " __typename ... on MessageEvent { message }"
                f" ... on ErrorEvent {{ error {{ {error} }} }} }} }}",
                cursor=cursor,
                limit=PAGE,
            )["eventConnection"]
            for event in page["events"]:
                yield Event(
                    event["__typename"], event["message"], "\n".join(_messages(event.get("error")))
                )
            cursor, more = page["cursor"], page["hasMore"]

    def log(self) -> str:
        """Return the run's log as text, one entry a line."""
        return "\n".join(f"{event.kind}: {event.message} {event.error}" for event in self.events())

    def step_process(self, timeout: float = 120) -> psutil.Process:
        """Return the process of the step that started last.

        Raises:
            TimeoutError: no step started in time.
            psutil.NoSuchProcess: the process is gone.
        """
        return self._process(
            "StepWorkerStartedEvent", r"Executing step .* in subprocess", "pid", timeout
        )

    def worker_process(self, timeout: float = 120) -> psutil.Process:
        """Return the run's process, whose children are those of its steps; see `step_process`."""
        return self._process("EngineEvent", r"parent process \(pid: (\d+)\)", "", timeout)

    def cancel(self) -> None:
        """Cancel the run, as the button in the web interface does."""
        self.graphql.one(
            "TerminateRunSuccess",
            "mutation($run: String!) { terminateRun(runId: $run, terminatePolicy: SAFE_TERMINATE)"
            f" {{ __typename ... on TerminateRunFailure {{ message }} {ERROR} }} }}",
            run=self.run_id,
        )

    def reexecute(self, strategy: str = "FROM_FAILURE") -> Run:
        """Execute the run again.

        Args:
            strategy: ``FROM_FAILURE``, ``FROM_ASSET_FAILURE`` or ``ALL_STEPS``.
        """
        launched = self.graphql.one(
            "LaunchRunSuccess",
            "mutation($again: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $again)"
            f" {{ __typename ... on LaunchRunSuccess {{ run {{ runId }} }} {ERROR} }} }}",
            again={"parentRunId": self.run_id, "strategy": strategy},
        )
        return Run(self.graphql, launched["run"]["runId"])

    def _process(self, kind: str, pattern: str, label: str, timeout: float) -> psutil.Process:
        def pid() -> int | None:
            query = (
                "eventConnection { events { __typename ... on MessageEvent { message }"
                " ... on DisplayableEvent { metadataEntries { label"
                " ... on TextMetadataEntry { text } ... on IntMetadataEntry { intRepr } } } } }"
            )
            for event in reversed(self._ask(query)["eventConnection"]["events"]):
                if event["__typename"] == kind and (match := re.search(pattern, event["message"])):
                    if not label:
                        return int(match[1])
                    return int(dict(map(entry, event["metadataEntries"]))[label])
            return None

        return psutil.Process(until(pid, timeout, lambda: f"no process told\n{self.log()}"))

    def _ask(self, fields: str, **variables: Any) -> dict[str, Any]:
        # GraphQL rejects variables that are declared and not used.
        kinds = {"cursor": "String", "limit": "Int"}
        declared = "".join(f", ${name}: {kinds[name]}" for name in variables)
        return self.graphql.one(
            "Run",
            f"query($run: ID!{declared}) {{ runOrError(runId: $run)"
            f" {{ __typename ... on Run {{ {fields} }} {ERROR} }} }}",
            run=self.run_id,
            **variables,
        )


@dataclass(frozen=True)
class Backfill:
    """A backfill; the daemon checks it every 30 seconds, and launches its runs."""

    graphql: GraphQL
    backfill_id: str

    @property
    def status(self) -> str:
        """``REQUESTED``, ``COMPLETED_SUCCESS``, ``COMPLETED_FAILED``, ..."""
        return str(self._ask("status")["status"])

    def runs(self, count: int, timeout: float = 180) -> list[Run]:
        """Wait until the backfill has a number of runs, and return them.

        Raises:
            TimeoutError: the time ran out.
        """

        def find_runs() -> list[Run] | None:
            runs = [Run(self.graphql, run["id"]) for run in self._ask("runs { id }")["runs"]]
            return runs if len(runs) == count else None

        return until(find_runs, timeout, lambda: f"{self.backfill_id}: {self._ask(TOLD)}")

    def wait(self, timeout: float = 180) -> str:
        """Wait until the daemon has seen the end of all runs, and return the status.

        Raises:
            TimeoutError: the time ran out.
        """
        return until(
            lambda: status if (status := self.status) in OVER else None,
            timeout,
            lambda: f"{self.backfill_id}: {self._ask(TOLD)}",
        )

    def reexecute(self) -> Backfill:
        """Launch another backfill, of the partitions that are not materialized."""
        launched = self.graphql.one(
            "LaunchBackfillSuccess",
            "mutation($again: ReexecutionParams!) {"
            " reexecutePartitionBackfill(reexecutionParams: $again)"
            f" {{ __typename ... on LaunchBackfillSuccess {{ backfillId }} {ERROR} }} }}",
            again={"parentRunId": self.backfill_id, "strategy": "FROM_FAILURE"},
        )
        return Backfill(self.graphql, launched["backfillId"])

    def _ask(self, fields: str) -> dict[str, Any]:
        return self.graphql.one(
            "PartitionBackfill",
            "query($backfill: String!) { partitionBackfillOrError(backfillId: $backfill)"
            f" {{ __typename ... on PartitionBackfill {{ {fields} }} {ERROR} }} }}",
            backfill=self.backfill_id,
        )


TOLD = "status runs { id status } error { message } logEvents { events { message } }"


def entry(queried: dict[str, Any]) -> tuple[str, Any]:
    """Return the label and the value of a metadata entry that was queried with `METADATA`."""
    label = str(queried["label"])
    if "intRepr" in queried:
        return label, int(queried["intRepr"])
    values = [value for name, value in queried.items() if name != "label"]
    return label, values[0] if len(values) == 1 else values


def _messages(error: dict[str, Any] | None) -> Iterator[str]:
    if error is not None:
        yield error["message"]
        for cause in error.get("causes", []):
            yield from _messages(cause)
