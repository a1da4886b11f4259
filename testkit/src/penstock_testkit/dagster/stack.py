"""A real Dagster: `dagster dev` with its web server, its daemon and the user's code."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError

from penstock_testkit.component import Component
from penstock_testkit.dagster.graphql import GraphQL
from penstock_testkit.dagster.runs import ERROR, METADATA, Backfill, Run, entry
from penstock_testkit.servers import HOST, ServerError, free_port
from penstock_testkit.waiting import until

# Variables that the test run, or its caller, may have set for itself.
FOREIGN = ("DAGSTER", "PG", "PYTHONWARNINGS", "PYTEST_", "COVERAGE")
ALL_ASSETS = "__ASSET_JOB"
INSTANCE = """\
telemetry: {enabled: false}
nux: {enabled: false}
# Runs begin when they are launched, and not when the daemon looks.
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
run_retries: {enabled: false}
"""


@dataclass(frozen=True)
class PartitionStatuses:
    """The partitions of an asset by status."""

    materialized: list[str]
    failed: list[str]
    missing: list[str]
    materializing: list[str]


class DagsterStack:
    """A real Dagster on 127.0.0.1.

    A context manager: entering starts it, which takes about 10 seconds; leaving stops it and
    removes everything. It never outlives this process.

    Args:
        definitions: the Python file with the `Definitions`.
        env: environment variables, which override those of this process.
    """

    def __init__(self, definitions: Path, env: Mapping[str, str] | None = None) -> None:
        self.definitions = definitions
        self._env_of_caller = dict(env or {})
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything and remove its files; do nothing if closed."""
        self._resources.close()

    # Runs

    def launch(
        self,
        *assets: str,
        partitions: str | tuple[str, str] | None = None,
        checks: bool = True,
    ) -> Run:
        """Materialize assets now, in one run.

        Args:
            assets: their keys, such as ``dw/orders``.
            partitions: one partition, or the first and the last one of a range; None if the assets
                have no partitions.
            checks: whether to run their checks as well.
        """
        tags: dict[str, str] = {}
        if isinstance(partitions, str):
            tags = {"dagster/partition": partitions}
        elif partitions is not None:
            first, last = partitions
            tags = {
                "dagster/asset_partition_range_start": first,
                "dagster/asset_partition_range_end": last,
            }
        selector = {
            "pipelineName": ALL_ASSETS,
            "repositoryName": self._repository,
            "repositoryLocationName": self._location,
            "assetSelection": [_key(asset) for asset in assets],
            # None stands for all checks of the selected assets.
            "assetCheckSelection": None if checks else [],
        }
        launched = self.graphql.one(
            "LaunchRunSuccess",
            "mutation($what: ExecutionParams!) { launchRun(executionParams: $what)"
            f" {{ __typename ... on LaunchRunSuccess {{ run {{ runId }} }} {ERROR} }} }}",
            what={
                "selector": selector,
                "executionMetadata": {
                    "tags": [{"key": key, "value": value} for key, value in tags.items()]
                },
            },
        )
        return Run(self.graphql, launched["run"]["runId"])

    def backfill(self, asset: str, partitions: Sequence[str]) -> Backfill:
        """Start a backfill of some partitions of an asset.

        Args:
            asset: its key, such as ``dw/orders``.
            partitions: their keys.
        """
        launched = self.graphql.one(
            "LaunchBackfillSuccess",
            "mutation($what: LaunchBackfillParams!) {"
            " launchPartitionBackfill(backfillParams: $what)"
            f" {{ __typename ... on LaunchBackfillSuccess {{ backfillId }} {ERROR} }} }}",
            what={"assetSelection": [_key(asset)], "partitionNames": list(partitions)},
        )
        return Backfill(self.graphql, launched["backfillId"])

    # Results

    def statuses(self, asset: str) -> PartitionStatuses:
        """Return the partitions of an asset by status; they must not be time windows."""
        result = self._asset(
            asset,
            "assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions"
            " failedPartitions unmaterializedPartitions materializingPartitions } }",
        )["assetPartitionStatuses"]
        return PartitionStatuses(
            materialized=sorted(result["materializedPartitions"]),
            failed=sorted(result["failedPartitions"]),
            missing=sorted(result["unmaterializedPartitions"]),
            materializing=sorted(result["materializingPartitions"]),
        )

    def checks(self, asset: str, name: str) -> dict[str | None, bool]:
        """Return whether a check of an asset passed, by partition, from its newest evaluations."""
        executions = self.graphql.ask(
            "query($asset: AssetKeyInput!, $name: String!) { assetCheckExecutions(assetKey: $asset,"
            " checkName: $name, limit: 1000) { evaluation { partition success } } }",
            asset=_key(asset),
            name=name,
        )["assetCheckExecutions"]
        # The newest come first.
        evaluations = [one["evaluation"] for one in reversed(executions) if one["evaluation"]]
        return {one["partition"]: one["success"] for one in evaluations}

    def metadata(self, asset: str) -> dict[str, Any]:
        """Return the metadata of the asset's definition, by label."""
        return dict(map(entry, self._asset(asset, METADATA)["metadataEntries"]))

    def log_tail(self, lines: int = 80) -> str:
        """Return the last lines of the output."""
        return self.process.log_tail(lines)

    def _asset(self, asset: str, fields: str) -> dict[str, Any]:
        return self.graphql.one(
            "AssetNode",
            "query($asset: AssetKeyInput!) { assetNodeOrError(assetKey: $asset)"
            f" {{ __typename ... on AssetNode {{ {fields} }} }} }}",
            asset=_key(asset),
        )

    # Start

    def _start(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="penstock-dagster-"))
        self._resources.callback(shutil.rmtree, self.home, ignore_errors=True)
        (self.home / "dagster.yaml").write_text(INSTANCE)
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        self.graphql = GraphQL(self.url)
        env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        env |= {"DAGSTER_HOME": str(self.home), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "dagster", "dev", "-h", HOST, "-p", str(port)]
        self.process = Component(
            "dagster dev",
            [*command, "-f", str(self.definitions)],
            env | self._env_of_caller,
            self.home / "dagster-dev.log",
        )
        self._resources.callback(self.process.close)
        self.process.start()
        self._location, self._repository = until(
            self._code, 120, lambda: f"Dagster is not ready\n{self.log_tail()}"
        )

    def _code(self) -> tuple[str, str] | None:
        """Return the names under which the user's code is loaded; None if not loaded yet."""
        if not self.process.running:
            raise ServerError(f"dagster dev ended\n{self.log_tail()}")
        query = (
            "{ workspaceOrError { __typename ... on Workspace { locationEntries { name"
            " locationOrLoadError { __typename ... on RepositoryLocation { repositories { name } }"
            f" {ERROR} }} }} }} }} }}"
        )
        try:
            entries = self.graphql.one("Workspace", query)["locationEntries"]
        except URLError:
            return None
        for code in entries:
            loaded = code["locationOrLoadError"]
            if loaded is None:
                return None
            if loaded["__typename"] != "RepositoryLocation":
                raise ServerError(f"{self.definitions} cannot be loaded\n{loaded['message']}")
            return code["name"], loaded["repositories"][0]["name"]
        return None


def _key(asset: str) -> dict[str, list[str]]:
    return {"path": asset.split("/")}
