"""`work_on`: workers of a run in the processes of an engine, such as those of Dask or Ray."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn
from uuid import uuid4

from penstock import errors
from penstock.engine.api import create
from penstock.engine.connections import holds_secret
from penstock.engine.state import new_run_id
from penstock.engine.value_display import isolate_display
from penstock.engine.work import work
from penstock.errors import Diagnosis, PenstockError, RunFailed, RunFailedTransiently, UsageError
from penstock.events import Committed, Finished
from penstock.model import values
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import AUTO, parse_degree
from penstock.spec.ids import check_run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """What one worker did."""

    worker: int
    """Its number, from 0."""
    host: str
    pid: int
    partitions: int
    """Partitions that it committed."""
    rows: int
    bytes: int
    """Bytes of those rows, in the form in which they travelled."""
    seconds: float
    """The time that it took, with waiting for the others at the end."""
    error: Mapping[str, Any] | None = None
    """The error that ended it, as in a ``failed`` event; None if the run was done when it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResult:
    """What `work_on` has done: sums over the workers that reported."""

    run_id: str
    partitions: int
    """Partitions that the workers committed: none if the run was done before."""
    rows: int
    bytes: int
    seconds: float
    """The time from the first call of a worker to the end of the last."""
    lost: int
    """Processes that were lost, and replaced. What they had committed is in the target, and in
    none of these sums."""
    workers: tuple[WorkerResult, ...] = field(repr=False)
    """The workers by number; without one whose process was lost, and could not be replaced."""


@isolate_display
def work_on(
    executor: Executor,
    run: CopySpec | BatchSpec | str,
    *,
    workers: int,
    source: str | None = None,
    target: str | None = None,
    control_schema: str = "penstock",
    streams: int | str = AUTO,
    restarts: int = 3,
    **overrides: Any,
) -> WorkResult:
    """Copy tables with workers in the processes of an executor; returns once the run is done.

    Each worker is a call of `work`. The executor is any `concurrent.futures.Executor` of
    processes, such as `ProcessPoolExecutor`, Dask's `Client.get_executor()` or mpi4py's
    `MPIPoolExecutor`; what it runs on needs Penstock, and access to both databases. Its scheduler
    gets the run's id and the two connections, which are resolved where a worker runs.

    If this call is interrupted, workers that have begun continue until their engine ends them.

    Args:
        executor: the executor; only `submit` is called.
        run: the copy, which is planned here; a batch, which the first worker plans; or the id of a
            run or batch that exists.
        workers: the number of workers.
        source: the source's connection, without a password: ``env:NAME``, ``file:/PATH``, or a
            URL. By default that of the copy.
        target: the target's connection, as `source`.
        control_schema: the schema of the control tables, if `run` is an id.
        streams: the number of concurrent streams of each worker, as `CopySpec.degree`.
        restarts: how many lost processes are replaced, all workers together. An executor that
            cannot go on, such as `ProcessPoolExecutor` after a process of its was killed, ends
            this call with `RunFailedTransiently`; another call with the run's id continues it.
        overrides: options that say how to run, as in `resume`.

    Raises:
        UsageError: an argument is wrong, a connection holds a password, or every worker found
            that it cannot be used.
        SpecMismatch: the run exists with other options.
        PlanningError: the run cannot be planned.
        RunFailed, RunFailedTransiently: no worker could end the run; the message says why.
    """
    if not isinstance(executor, Executor):
        raise UsageError(
            "work_on: executor: expected a concurrent.futures.Executor, such as Dask's "
            f"client.get_executor(); found {type(executor).__name__}"
        )
    _check_count("workers", workers, least=1)
    _check_count("restarts", restarts, least=0)
    streams = parse_degree(streams, "work_on: streams")
    if not isinstance(run, str):
        source, target = source or run.source, target or run.target
        control_schema = run.control_schema
    source = _sent("source", source)
    target = _sent("target", target)
    batch: BatchSpec | None = None
    if isinstance(run, CopySpec):
        run_id = create(replace(run, source=source, target=target)).run.run_id
    elif isinstance(run, BatchSpec):
        run_id = run.run_id or new_run_id()
        batch = replace(run, source=source, target=target, run_id=run_id)
    else:
        check_run_id(run)
        run_id = run
    options = {
        "source": source,
        "target": target,
        "spec": batch,
        "control_schema": control_schema,
        "streams": streams,
        **overrides,
    }
    return _Crew(executor, run_id, options, restarts).work(workers)


class _Crew:
    """The workers of a run, and the futures of their calls.

    Args:
        executor: the executor.
        run_id: the id of the run.
        options: the options of `work`.
        restarts: how many lost processes are replaced.
    """

    def __init__(
        self, executor: Executor, run_id: str, options: Mapping[str, Any], restarts: int
    ) -> None:
        self._executor = executor
        self._run_id = run_id
        self._options = options
        self._restarts = restarts
        self._lost = 0
        self._futures: dict[Future[WorkerResult], int] = {}
        self._results: dict[int, WorkerResult] = {}
        self._engine_error: Exception | None = None
        """Why a worker was lost, or could not be started."""

    def work(self, workers: int) -> WorkResult:
        """Start workers, replace those whose process is lost, and return what they did.

        Raises:
            PenstockError: no worker ended the run.
        """
        started = time.monotonic()
        try:
            for number in range(workers):
                self._start(number)
            while self._futures:
                for future in wait(self._futures, return_when=FIRST_COMPLETED).done:
                    self._take(future)
        except BaseException:
            for future in self._futures:
                future.cancel()
            raise
        results = tuple(result for _, result in sorted(self._results.items()))
        if not self._is_done():
            self._fail(results)
        return WorkResult(
            run_id=self._run_id,
            partitions=sum(result.partitions for result in results),
            rows=sum(result.rows for result in results),
            bytes=sum(result.bytes for result in results),
            seconds=time.monotonic() - started,
            lost=self._lost,
            workers=results,
        )

    def _start(self, number: int) -> None:
        try:
            # An engine may take equal calls for the same, and return what it kept of the first.
            unique = uuid4().hex
            future = self._executor.submit(_work, self._run_id, number, self._options, unique)
        except RuntimeError as error:  # the executor is broken or shut down
            self._engine_error = error
        else:
            self._futures[future] = number

    def _take(self, future: Future[WorkerResult]) -> None:
        """Take what an ended call returned; if its process was lost, start another one."""
        number = self._futures.pop(future)
        try:
            self._results[number] = future.result()
        except CancelledError:
            raise
        except Exception as error:  # a call itself raises nothing: this is the engine's own
            self._engine_error = error
            self._lost += 1
            if self._lost <= self._restarts and not self._is_done():
                self._start(number)

    def _is_done(self) -> bool:
        """Whether the run is done: no worker ends without an error before that."""
        return any(result.error is None for result in self._results.values())

    def _fail(self, results: tuple[WorkerResult, ...]) -> NoReturn:
        """Raise the error that a user can do something about.

        Raises:
            PenstockError: always.
        """
        failed = [(result, result.error) for result in results if result.error is not None]
        for result, error in sorted(failed, key=lambda each: bool(each[1].get("transient"))):
            kind = getattr(errors, str(error.get("error")), RunFailed)
            known = {each.name for each in fields(Diagnosis)}
            raise kind(
                f"worker {result.worker} on {result.host}: {error.get('message')}",
                Diagnosis(**{name: error[name] for name in known & error.keys()}),
            )
        reason = self._engine_error
        raise RunFailedTransiently(
            f"run {self._run_id}: the executor lost its workers, or could not start them "
            f"({type(reason).__name__}: {reason}); committed partitions stay: call work_on again "
            f"with {self._run_id!r}, and with a new executor if this one is broken"
        )


def _check_count(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"work_on: {name}: expected a number of at least {least}, found {value!r}")


def _sent(side: str, connection: str | None) -> str:
    """Return a connection that may be sent to other machines.

    Raises:
        UsageError: it is missing, or holds a secret.
    """
    if connection is None:
        raise UsageError(f"work_on: {side}: expected a connection with the id of a run, found none")
    if holds_secret(connection):
        raise UsageError(
            f"work_on: {side}: expected env:NAME, file:/PATH or a URL without a password, since "
            "the executor's scheduler keeps and may show what it sends to workers; found a URL "
            "with one: put it into a variable or a file on each machine"
        )
    return connection


def _work(run_id: str, worker: int, options: Mapping[str, Any], _unique: str) -> WorkerResult:
    """Work on a run in a process of the executor, and return what was done; raises nothing."""
    started = time.monotonic()
    partitions = rows = size = 0
    error: Mapping[str, Any] | None = None
    reasons: list[Mapping[str, Any]] = []
    try:
        with closing(work(run_id, **options)) as events:
            for event in events:
                if isinstance(event, Committed) and not event.already:
                    partitions += 1
                    rows += event.rows
                    size += event.bytes
                elif isinstance(event, Finished):
                    reasons = [failure.error for failure in event.failures]
    except PenstockError as raised:
        error = raised.as_json()
        if reasons:
            error = {**error, "message": f"{raised.message}: {reasons[0].get('message')}"}
    except Exception as raised:  # it need not be picklable
        text = values.server_message(str(raised))
        error = {
            "error": type(raised).__name__,
            "message": f"a bug in Penstock: {type(raised).__name__}: {text}",
            "transient": False,
        }
    return WorkerResult(
        worker=worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        partitions=partitions,
        rows=rows,
        bytes=size,
        seconds=time.monotonic() - started,
        error=error,
    )
