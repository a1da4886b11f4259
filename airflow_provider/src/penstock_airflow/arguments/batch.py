"""Options of a batch as arguments of an operator: turned into a `BatchSpec`, and checked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from penstock import BatchSpec, PlanningError, UsageError, batch_of_file, check_request
from penstock_airflow.arguments.endpoint import End
from penstock_airflow.arguments.options import (
    OPTIONS,
    ORIGIN,
    asked_for,
    check,
    is_open,
    lists_as_lists,
    python_names,
)

Tables = Sequence[str | Mapping[str, Any]]
OnTableError = Literal["continue", "stop"]
ON_TABLE_ERROR: OnTableError = "continue"


def make_batch(
    source: str,
    target: str,
    *,
    tables: Tables,
    file: str | None = None,
    environ: Mapping[str, str] | None = os.environ,
    exclude: Sequence[str] | str,
    target_schema: str | None,
    on_table_error: str,
    options: Mapping[str, Any],
    run_id: str | None = None,
) -> BatchSpec:
    """Create the spec of a batch.

    Parameters:
        source, target: URLs, with their secrets.
        file: a file of many tables, from which `tables` selects; None if `tables` lists them all.
        environ: variables for references in the file; None for no variables.

    Raises:
        UsageError: an option is wrong; the message names the argument, and the table if it is one
            of the table's own.
    """
    listed = _listed(tables) if tables or file is None else ()
    raw = {
        **lists_as_lists(options),
        "source": source,
        "target": target,
        "run_id": run_id,
        "tables": [table for table in listed if isinstance(table, str)],
        "exclude": exclude if isinstance(exclude, str) else list(exclude),
        "target_schema": target_schema,
        # The file may set what the call leaves out.
        "on_table_error": None if on_table_error == ON_TABLE_ERROR else on_table_error,
        "table": [lists_as_lists(table) for table in listed if isinstance(table, Mapping)],
    }
    given = {name: value for name, value in raw.items() if value not in (None, "", [])}
    with _without_sections(), python_names():
        if file is None:
            return BatchSpec.from_mapping(given, ORIGIN)
        return batch_of_file(file, given, environ)


def check_batch(
    source: End,
    target: End,
    *,
    tables: Any,
    options: Mapping[str, Any],
    **others: Any,
) -> None:
    """Find mistakes that do not depend on templates.

    Raises:
        PlanningError: an end does not support the argument in the message.
        UsageError: the argument in the message is wrong; the message names the table if it is one
            of the table's own.
    """
    for end in (source, target):
        if end.located:
            raise UsageError(
                f"{end.side}: copying many tables needs a database; this URL leads to files, which "
                "are one table: copy each table by itself, with its own URL"
            )
    if others.get("file") is not None:
        _check_file(source, target, tables=tables, options=options, **others)
        return
    if is_open(tables):
        return
    named = [table for table in _listed(tables) if isinstance(table, Mapping)]
    # Patterns may find tables that no option names.
    for table in [{"table": "some.table"}] * (len(named) < len(tables)) + named:
        own = {str(name).replace("-", "_"): value for name, value in table.items()}
        given = {**options, **own}
        try:
            check(given, source, target)
        except (PlanningError, UsageError) as error:
            place = f"{own.get('table') or own.get('target_table')}: " if table in named else ""
            raise type(error)(place + error.message) from None
    if not any(is_open(value) for value in (*options.values(), *others.values(), *tables)) and not (
        any(is_open(value) for table in named for value in table.values())
    ):
        make_batch(source.sample, target.sample, tables=tables, options=options, **others)


def _check_file(
    source: End, target: End, *, tables: Any, options: Mapping[str, Any], **others: Any
) -> None:
    """Check the file without environment variables: tasks have an environment of their own."""
    if not is_open(tables) and any(isinstance(table, Mapping) for table in tables):
        raise UsageError(
            "tables: beside file, expected patterns that select among its tables; found a table's "
            "arguments: give it a section in the file"
        )
    known = {name: value for name, value in options.items() if not is_open(value)}
    fixed = {name: value for name, value in others.items() if not is_open(value)}
    asked = {"exclude": (), "target_schema": None, **fixed}
    batch = make_batch(
        source.sample, target.sample, tables=(), options=known, environ=None, **asked
    )
    with python_names():
        for spec in batch.named_tables():
            try:
                check_request(spec)
            except (PlanningError, UsageError) as error:
                raise type(error)(f"{spec.source_name}: {error.message}") from None


def tables_of_file(
    file: str, ends: Mapping[str, Any], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the arguments of `copy_tables` for each table of a file.

    Parameters:
        ends: the result of `ends_of_file`.
        options: override the options that the file sets for all tables.

    Raises:
        UsageError: the file is wrong, or names no table; only the source knows which tables a
            pattern matches.
    """
    stand_ins = {"source": "env:SOURCE", "target": "env:TARGET"}
    with python_names():
        batch = batch_of_file(file, {**lists_as_lists(options), **stand_ins})
        named = batch.named_tables()
        if not named:
            raise UsageError(
                f"{file}: a task for each table needs sections that name tables, since only the "
                "source knows what patterns match; CopyAllOperator takes patterns"
            )
    given = [{name: getattr(spec, name) for name in OPTIONS} for spec in named]
    return [{**asked_for(each), **ends} for each in given]


def ends_of_file(file: str, ends: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ends among the arguments of a call, with the file's for those left out.

    Raises:
        UsageError: the file cannot be read, or is wrong.
    """
    given = {
        end: f"env:{end.upper()}"
        for end in ("source", "target")
        if ends.get(end) is not None or ends.get(f"{end}_conn_id") is not None
    }
    with python_names():
        batch = batch_of_file(file, given, None)
    return {
        **ends,
        **{end: getattr(batch, end) for end in ("source", "target") if end not in given},
    }


def _listed(tables: Any) -> Tables:
    """Check that an argument is a list.

    Raises:
        UsageError: the argument is not a list of patterns and mappings.
    """
    if isinstance(tables, str | Mapping) or not tables:
        raise UsageError(
            "tables: expected a list of patterns such as 'public.*', or of tables with their "
            f"arguments; found {tables!r}"
        )
    for table in tables:
        if not isinstance(table, str | Mapping):
            raise UsageError(
                "tables: expected a pattern such as 'public.*', or a table's arguments as a "
                f"mapping; found {table!r}"
            )
    listed: Tables = tables
    return listed


@contextmanager
def _without_sections() -> Iterator[None]:
    """Drop the sections of a TOML file from errors, because a DAG has none."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.message.removeprefix("[[table]] ")) from None
