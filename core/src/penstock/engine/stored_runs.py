"""A target's catalog opened to ask about runs; a run by its id; its spec; whether it is at work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from penstock.backends.api.execution.control import ControlStore, RunHead, RunRow, reading_run
from penstock.backends.api.target import TargetCatalog
from penstock.engine.connections import resolve
from penstock.errors import UsageError
from penstock.model.journal import KILLED, RUNNING
from penstock.spec.copy_spec import CopySpec
from penstock.spec.ids import check_run_id


@contextmanager
def target_catalog(target: str, control_schema: str) -> Iterator[TargetCatalog]:
    """Open a session in a target, for the duration of the block.

    Args:
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the connection cannot be resolved.
        TransientError: the target cannot be reached.
    """
    url, backend, *_ = resolve(target, "--target")
    with closing(backend.target(url, control_schema)) as catalog:
        yield catalog


@contextmanager
def stored_run(
    run_id: str, target: str, control_schema: str
) -> Iterator[tuple[TargetCatalog, RunRow]]:
    """Open a session in the target of a run, for the duration of the block, and load the run.

    Args:
        run_id: the id of the run.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the id is malformed, or there is no such run.
        TransientError: the target cannot be reached.
    """
    check_run_id(run_id)
    with target_catalog(target, control_schema) as catalog:
        yield catalog, load_run(catalog, run_id, control_schema)


def load_run(target: TargetCatalog, run_id: str, control_schema: str) -> RunRow:
    """Return a run from the target's control tables.

    Args:
        target: the target's catalog.
        run_id: the id of the run.
        control_schema: the schema of the control tables, for the message.

    Raises:
        UsageError: no such run.
    """
    run = target.control.runs.find(run_id)
    if run is None:
        raise missing_run_error(run_id, control_schema)
    return run


def missing_run_error(run_id: str, control_schema: str) -> UsageError:
    """Return the error of a run id that the target does not have."""
    return UsageError(
        f"run {run_id!r} is not in the target's control schema {control_schema!r}; check the run "
        "id, --target and --control-schema"
    )


def spec_of(run_id: str, stored: Mapping[str, Any], source: str = "", target: str = "") -> CopySpec:
    """Return the spec of a stored run.

    Args:
        run_id: the id of the run, for the message.
        stored: the stored form of the spec.
        source: the source's connection, which is not stored; empty if it is not needed.
        target: the target's connection, as `source`.

    Raises:
        PermanentError: the stored form is damaged.
    """
    with reading_run(run_id):
        return CopySpec.from_stored(stored, source, target)


def is_at_work(control: ControlStore, head: RunHead, spec: CopySpec) -> bool | None:
    """Whether a process is executing a run: checked only if the target has it as running.

    Args:
        control: the target's control store.
        head: the run as listed.
        spec: the options of the run.
    """
    if head.status != RUNNING:
        return False
    return control.presence.is_at_work(head.run_id, spec.target_ref)


def shown_status(status: str, at_work: bool | None) -> str:
    """Return a run's status as people see it: a killed execution has left it as ``running``."""
    return KILLED if status == RUNNING and at_work is False else status
