"""The part of Airflow's REST interface that tests need."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import psutil

from penstock_testkit.waiting import until

UNMAPPED = -1
FINISHED = ("success", "failed", "skipped", "upstream_failed", "removed")
RUN_FINISHED = ("success", "failed")
# Seconds between two requests: an answer costs the server more than a request costs us.
ASK_EVERY = 0.5


class RestError(RuntimeError):
    """The server rejected a request; the message is its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Rest:
    """The REST interface of a server where every user is an admin.

    Args:
        url: the server's URL, without ``/api/v2``.
    """

    url: str

    def get(self, path: str, **query: Any) -> Any:
        """Send a GET request; see `call`."""
        return self.call("GET", path, **query)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any
    ) -> Any:
        """Send a request, and return the decoded answer.

        Args:
            method: the HTTP method.
            path: the path below ``/api/v2``, with its parts quoted.
            body: the body, sent as JSON.
            query: the parameters in the URL.

        Raises:
            RestError: the server rejected the request.
            URLError: the server does not listen.
        """
        url = f"{self.url}/api/v2{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data, headers, method=method)
        try:
            with urlopen(request, timeout=120) as answer:
                content = answer.read()
        except HTTPError as error:
            with error:
                words = error.read().decode(errors="replace")
            raise RestError(error.code, f"{method} {path}: {error.code} {words}") from None
        return json.loads(content) if content else None

    def healthy(self) -> bool:
        """Whether the server answers, and reports that all other components are alive."""
        try:
            health = self.get("/monitor/health")
        except (URLError, RestError, OSError):
            return False
        return all(part["status"] == "healthy" for part in health.values())


@dataclass(frozen=True)
class TaskInstance:
    """A task instance, or one of its tries, at the time of the request."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    pid: int | None
    rendered_map_index: str | None
    raw: dict[str, Any] = field(repr=False)
    """The server's whole answer."""


@dataclass(frozen=True)
class Run:
    """A DAG run and its operations. Every wait has a limit in seconds."""

    rest: Rest
    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        return f"/dags/{quote(self.dag_id)}/dagRuns/{quote(self.run_id, safe='')}"

    @property
    def state(self) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self.rest.get(self.path)["state"])

    def wait(self, states: Collection[str] = RUN_FINISHED, timeout: float = 180) -> str:
        """Wait until the run has one of the given states, and return it.

        Raises:
            TimeoutError: the time ran out; the message lists the task instances.
        """
        return until(
            lambda: state if (state := self.state) in states else None,
            timeout,
            lambda: f"{self.run_id} is {self.state}, expected {states}: {self.tasks()}",
            ASK_EVERY,
        )

    def succeeded(self, timeout: float = 180) -> None:
        """Wait for the run to succeed.

        Raises:
            AssertionError: the run failed; the message ends with the logs of the failed tasks.
        """
        if self.wait(timeout=timeout) != "success":
            failed = [task for task in self.tasks() if task.state not in {"success", "skipped"}]
            logs = "\n".join(self.log(task.task_id, task.map_index) for task in failed[:5])
            raise AssertionError(f"{self.run_id} failed: {failed}\n{logs}")

    def tasks(self) -> list[TaskInstance]:
        """Return all task instances, by task id and map index."""
        instances: list[TaskInstance] = []
        while True:
            page = self.rest.get(f"{self.path}/taskInstances", limit=100, offset=len(instances))
            instances += map(_task_instance, page["task_instances"])
            if len(instances) >= page["total_entries"] or not page["task_instances"]:
                return sorted(instances, key=lambda task: (task.task_id, task.map_index))

    def mapped(self, task_id: str) -> list[TaskInstance]:
        """Return the instances of a mapped task, by map index."""
        return [task for task in self.tasks() if task.task_id == task_id]

    def task(self, task_id: str, map_index: int = UNMAPPED) -> TaskInstance:
        """Return the current state of one task instance.

        Raises:
            RestError: it does not exist, or not yet.
        """
        return _task_instance(self.rest.get(self._path(task_id, map_index)))

    def tries(self, task_id: str, map_index: int = UNMAPPED) -> list[TaskInstance]:
        """Return all tries of a task instance, the first one first."""
        answer = self.rest.get(f"{self._path(task_id, map_index)}/tries")
        instances = map(_task_instance, answer["task_instances"])
        return sorted(instances, key=lambda task: task.try_number)

    def wait_for(
        self,
        task_id: str,
        map_index: int = UNMAPPED,
        states: Collection[str] = FINISHED,
        *,
        try_number: int = 1,
        timeout: float = 120,
    ) -> TaskInstance:
        """Wait until a task instance has one of the given states, and return it.

        Args:
            task_id: the task.
            map_index: the index of a mapped instance; -1 for other tasks.
            states: the states to wait for.
            try_number: the lowest number of the try.
            timeout: seconds.

        Raises:
            TimeoutError: the time ran out; the message lists the task instances.
        """

        def find_instance() -> TaskInstance | None:
            try:
                task = self.task(task_id, map_index)
            except RestError as error:
                if error.status != 404:
                    raise
                return None
            return task if task.state in states and task.try_number >= try_number else None

        return until(
            find_instance,
            timeout,
            lambda: f"{task_id}[{map_index}]: expected {states}, found {self.tasks()}",
            ASK_EVERY,
        )

    def process(self, task_id: str, map_index: int = UNMAPPED) -> psutil.Process:
        """Return the operating system's process of a running task instance.

        Raises:
            psutil.NoSuchProcess: the process is gone.
            AssertionError: the task is in another state.
        """
        task = self.wait_for(task_id, map_index, ["running"])
        assert task.pid is not None, f"{task} runs without a process"
        return psutil.Process(task.pid)

    def clear(
        self,
        *tasks: str | tuple[str, int],
        only_failed: bool = False,
        downstream: bool = False,
        upstream: bool = False,
    ) -> None:
        """Clear task instances, as the button in the web interface does.

        Args:
            only_failed: whether to leave out tasks that have not failed.
            downstream: whether to clear the tasks after them, too.
            upstream: whether to clear the tasks before them, too.
            tasks: task ids; for one mapped instance, the task id and the map index.
        """
        body = {
            "dag_run_id": self.run_id,
            "task_ids": [task if isinstance(task, str) else list(task) for task in tasks],
            "only_failed": only_failed,
            "include_downstream": downstream,
            "include_upstream": upstream,
            "dry_run": False,
        }
        self.rest.call("POST", f"/dags/{quote(self.dag_id)}/clearTaskInstances", body)

    def clear_run(self, *, only_failed: bool = False) -> None:
        """Clear all tasks of the run, or only the failed ones."""
        body = {"dry_run": False, "only_failed": only_failed}
        self.rest.call("POST", f"{self.path}/clear", body)

    def mark(self, task_id: str, map_index: int = UNMAPPED, *, state: str) -> None:
        """Mark a task instance ``failed`` or ``success``, which ends a running one.

        Args:
            task_id: the task.
            map_index: the index of a mapped instance; -1 for other tasks, or for all instances of a
                mapped task.
            state: ``failed`` or ``success``.
        """
        self.rest.call("PATCH", self._path(task_id, map_index), {"new_state": state})

    def mark_run(self, state: str) -> None:
        """Mark the whole run ``failed`` or ``success``."""
        self.rest.call("PATCH", self.path, {"state": state})

    def log(self, task_id: str, map_index: int = UNMAPPED, *, try_number: int | None = None) -> str:
        """Return the log of one try as the web interface shows it, one entry a line.

        Args:
            task_id: the task.
            map_index: the index of a mapped instance; -1 for other tasks.
            try_number: the number of the try; by default the last.
        """
        number = try_number or self.task(task_id, map_index).try_number
        path = f"{self.path}/taskInstances/{quote(task_id)}/logs/{number}"
        answer = self.rest.get(path, map_index=map_index, full_content="true")
        return "\n".join(map(_line, answer["content"]))

    def xcom(self, task_id: str, map_index: int = UNMAPPED, *, key: str = "return_value") -> Any:
        """Return a value that a task instance pushed.

        Args:
            task_id: the task.
            map_index: the index of a mapped instance; -1 for other tasks.
            key: the key of the value; by default that of the task's result.

        Raises:
            RestError: there is no such value.
        """
        path = f"{self.path}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        return self.rest.get(path, map_index=map_index, deserialize="false")["value"]

    def links(self, task_id: str, map_index: int = UNMAPPED) -> dict[str, str | None]:
        """Return the extra links of a task instance, by name."""
        path = f"{self.path}/taskInstances/{quote(task_id)}/links"
        links: dict[str, str | None] = self.rest.get(path, map_index=map_index)["extra_links"]
        return links

    def asset_events(self) -> list[dict[str, Any]]:
        """Return the asset events of this run's tasks."""
        events = self.rest.get("/assets/events", source_dag_id=self.dag_id, limit=100)
        return [event for event in events["asset_events"] if event["source_run_id"] == self.run_id]

    def _path(self, task_id: str, map_index: int) -> str:
        mapped = "" if map_index == UNMAPPED else f"/{map_index}"
        return f"{self.path}/taskInstances/{quote(task_id)}{mapped}"


def _task_instance(raw: dict[str, Any]) -> TaskInstance:
    return TaskInstance(
        task_id=raw["task_id"],
        map_index=raw["map_index"],
        state=raw["state"],
        try_number=raw["try_number"],
        pid=raw["pid"],
        rendered_map_index=raw.get("rendered_map_index"),
        raw=raw,
    )


def _line(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    return " ".join(
        str(value) if name in {"timestamp", "level", "event"} else f"{name}={value}"
        for name, value in entry.items()
    )
