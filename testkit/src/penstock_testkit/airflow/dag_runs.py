"""One DAG run in its own process, by `dag.test()`, and the run's result.

Airflow is not imported into the test process: its import is slow, it allows one configuration per
process, and it emits warnings. Results are read from its SQLite file.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

from penstock_testkit.airflow import run_dag, run_forks
from penstock_testkit.airflow.environment import environment
from penstock_testkit.airflow.migrated import airflow_version, sqlite_template

UNMAPPED = -1


class DagTestError(RuntimeError):
    """A DAG could not be run at all; the message ends with the output."""


@dataclass(frozen=True)
class TaskRun:
    """The result of one task instance."""

    task_id: str
    map_index: int
    """-1 if the task is not mapped."""
    state: str | None
    """``success``, ``failed``, ``skipped``, ``upstream_failed``, ...; None if not started."""
    try_number: int
    rendered_map_index: str | None
    """The name of the mapped task instance in the grid."""
    duration: float | None
    """Seconds of the last try."""
    rendered_fields: dict[str, Any]
    """The templated fields as the web interface shows them."""
    xcoms: dict[str, Any]
    """JSON values by key."""
    log: str = field(repr=False)
    """The output and log lines of all tries."""

    @property
    def value(self) -> Any:
        """The return value of `execute`, as JSON; None if nothing."""
        return self.xcoms.get("return_value")


@dataclass(frozen=True)
class AssetEvent:
    """An update of an asset."""

    uri: str
    task_id: str | None
    map_index: int | None
    extra: dict[str, Any]
    partition_key: str | None


@dataclass(frozen=True)
class DagRunResult:
    """The result of a DAG run."""

    run_id: str
    state: str
    """``success`` or ``failed``."""
    tasks: list[TaskRun]
    """Sorted by task id and map index."""
    asset_events: list[AssetEvent]
    output: str = field(repr=False)
    """All output and log lines."""
    database: Path = field(repr=False)
    """The SQLite file with all of Airflow's tables."""

    def task(self, task_id: str, map_index: int = UNMAPPED) -> TaskRun:
        """Return one task instance.

        Raises:
            LookupError: it does not exist; the message lists those that do.
        """
        for task in self.tasks:
            if (task.task_id, task.map_index) == (task_id, map_index):
                return task
        raise LookupError(f"no task instance {task_id}[{map_index}] in {self.states}")

    def mapped(self, task_id: str) -> list[TaskRun]:
        """Return all instances of a mapped task, by map index."""
        return [task for task in self.tasks if task.task_id == task_id]

    @property
    def states(self) -> dict[str, str | None]:
        """States by task id, with the index for mapped tasks: ``copy[3]``."""
        return {
            task.task_id if task.map_index == UNMAPPED else f"{task.task_id}[{task.map_index}]": (
                task.state
            )
            for task in self.tasks
        }

    def succeeded(self) -> Self:
        """Return this result if the run succeeded.

        Raises:
            AssertionError: the run has another state; the message ends with all output.
        """
        assert self.state == "success", f"{self.state}: {self.states}\n{self.output}"
        return self


class DagRunner:
    """Runs DAGs one at a time, in one Airflow home with its own metadata database.

    Args:
        home: an empty folder.
        python: the interpreter with Airflow 2.11 or 3.x; by default this one.
        settings: Airflow's settings, by ``section.name``.
    """

    def __init__(
        self,
        home: Path,
        python: Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.home = home
        self.python = python or Path(sys.executable)
        self.settings = dict(settings or {})
        self.database = home / "airflow.db"
        home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sqlite_template(self.python), self.database)

    @property
    def version(self) -> str:
        """Airflow's version, such as ``2.11.2``."""
        return airflow_version(self.python)

    def run(
        self,
        file: Path,
        dag_id: str,
        *,
        run_conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
        connections: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 240,
    ) -> DagRunResult:
        """Run a DAG to its end.

        Airflow reads every DAG file in the folder of `file`, so keep that folder small.

        Args:
            file: the DAG file.
            dag_id: the DAG to run.
            run_conf: the conf of the run.
            logical_date: a time with a time zone; by default now.
            connections: URLs by connection id.
            env: additional environment variables.
            timeout: seconds for the whole run.

        Raises:
            DagTestError: the file cannot be imported, does not define the DAG, or the time ran out.
        """
        answer = self.home / "answer.json"
        answer.unlink(missing_ok=True)
        request = {
            "file": str(file),
            "dag_id": dag_id,
            "conf": run_conf,
            "logical_date": None if logical_date is None else logical_date.isoformat(),
        }
        settings = {"database.sql_alchemy_conn": f"sqlite:///{self.database}", **self.settings}
        arguments = [json.dumps(request), str(answer)]
        whole = environment(self.home, file.parent, settings, connections or {}) | dict(env or {})
        if self.python == Path(sys.executable):
            output_file = self.home / "output"
            code, output = Forks.shared().output_of(arguments, whole, output_file, timeout)
        else:
            command = [str(self.python), "-P", run_dag.__file__, *arguments]
            code, output = _output_of(command, whole, timeout)
        if not answer.exists():
            why = f"not done after {timeout:g} s" if code is None else f"ended with {code}"
            raise DagTestError(f"{file}: {dag_id}: {why}\n{output}")
        return self._result(dag_id, output=output, **json.loads(answer.read_text()))

    def _result(self, dag_id: str, *, run_id: str, state: str, output: str) -> DagRunResult:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.row_factory = sqlite3.Row
            tasks = list(_tasks(connection, dag_id, run_id, output))
            events = list(_asset_events(connection, dag_id, run_id))
        return DagRunResult(run_id, state, tasks, events, output, self.database)


class Forks:
    """Runs DAGs one at a time in forks of a process that has imported Airflow; see `run_forks`."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="penstock-airflow-"))
        self._log = self._home / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", run_forks.__file__],
                env=environment(self._home, self._home / "dags", {}, {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # `select` would not see a line that has been read ahead.
                bufsize=0,
                start_new_session=True,
            )

    @classmethod
    @cache
    def shared(cls) -> Forks:
        """Return the instance of this process, which ends with it."""
        forks = cls()
        atexit.register(forks.close)
        return forks

    def output_of(
        self, arguments: list[str], env: Mapping[str, str], output: Path, timeout: float
    ) -> tuple[int | None, str]:
        """Run ``run_dag.py`` in a fork, with the result of `_output_of`.

        Args:
            arguments: the arguments of ``run_dag.py``.
            env: the environment of the fork.
            output: the file for the output.
            timeout: seconds from the start of the fork.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": arguments, "env": dict(env), "output": str(output)}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        pid, code = self._line(), None
        try:
            if select.select([self._process.stdout], [], [], timeout)[0]:
                code = self._line()
        finally:
            # An interrupted test must leave no process behind.
            if code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                self._line()
        return code, output.read_text(errors="replace")

    def _line(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DagTestError(f"no Airflow to run DAGs in\n{self._log.read_text()}")
        return int(line)

    def close(self) -> None:
        """End the process, and remove its files."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
        shutil.rmtree(self._home, ignore_errors=True)


def _output_of(command: list[str], env: dict[str, str], timeout: float) -> tuple[int | None, str]:
    """Return the exit code, or None after the timeout, and the output."""
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    finally:
        # An interrupted test must leave no process behind.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _tasks(
    connection: sqlite3.Connection, dag_id: str, run_id: str, output: str
) -> Iterator[TaskRun]:
    fields = _by_task(connection, "rendered_task_instance_fields", dag_id, run_id)
    xcoms = _by_task(connection, "xcom", dag_id, run_id)
    logs = _logs(output)
    rows = connection.execute(
        "SELECT task_id, map_index, state, try_number, rendered_map_index, duration"
        " FROM task_instance WHERE (dag_id, run_id) = (?, ?) ORDER BY task_id, map_index",
        (dag_id, run_id),
    )
    for row in rows:
        key = (row["task_id"], row["map_index"])
        rendered = [_json(one["rendered_fields"]) for one in fields.get(key, [])]
        yield TaskRun(
            **row,
            rendered_fields=rendered[0] if rendered else {},
            xcoms={one["key"]: _json(one["value"]) for one in xcoms.get(key, [])},
            log=logs.get(key, ""),
        )


def _by_task(
    connection: sqlite3.Connection, table: str, dag_id: str, run_id: str
) -> dict[tuple[str, int], list[sqlite3.Row]]:
    """Return the rows of a table, by task instance."""
    rows: dict[tuple[str, int], list[sqlite3.Row]] = {}
    query = f"SELECT * FROM {table} WHERE (dag_id, run_id) = (?, ?)"
    for row in connection.execute(query, (dag_id, run_id)):
        rows.setdefault((row["task_id"], row["map_index"]), []).append(row)
    return rows


def _asset_events(connection: sqlite3.Connection, dag_id: str, run_id: str) -> Iterator[AssetEvent]:
    columns = {row["name"] for row in connection.execute("PRAGMA table_info(asset_event)")}
    # Airflow 2 calls them datasets.
    word = "asset" if columns else "dataset"
    rows = connection.execute(
        f"SELECT e.*, a.uri FROM {word}_event AS e JOIN {word} AS a ON a.id = e.{word}_id"
        " WHERE (source_dag_id, source_run_id) = (?, ?) ORDER BY e.id",
        (dag_id, run_id),
    )
    for row in rows:
        yield AssetEvent(
            uri=row["uri"],
            task_id=row["source_task_id"],
            map_index=row["source_map_index"],
            extra=_json(row["extra"]),
            partition_key=row["partition_key"] if "partition_key" in columns else None,
        )


def _json(stored: Any) -> Any:
    """Decode JSON, which SQLite may have turned into a number."""
    return json.loads(stored) if isinstance(stored, str | bytes) else stored


def _logs(output: str) -> dict[tuple[str, int], str]:
    """Return the output of each task, between the lines that `dag.test()` prints around it."""
    logs: dict[tuple[str, int], str] = {}
    edge = re.compile(r"\[DAG TEST\] (starting|end task) task_id=(\S+) map_index=(-?\d+)")
    key: tuple[str, int] | None = None
    for line in output.splitlines(keepends=True):
        match = edge.search(line)
        if match and match[1] == "starting":
            key = (match[2], int(match[3]))
        elif match:
            key = None
        elif key is not None:
            logs[key] = logs.get(key, "") + line
    return logs
