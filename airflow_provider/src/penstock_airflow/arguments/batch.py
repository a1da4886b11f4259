"""Options of a batch of tables as arguments of an operator."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from penstock import BatchSpec, PlanningError, UsageError, batch_of_file, check_request
from penstock_airflow.arguments.endpoint import Endpoint
from penstock_airflow.arguments.mistakes import check_arguments
from penstock_airflow.arguments.options import (
    OPTIONS,
    ORIGIN,
    arguments_in_errors,
    check_options,
    is_dynamic,
    non_default_options,
    tuples_as_lists,
)

Tables = Sequence[str | Mapping[str, Any]]
OnTableError = Literal["continue", "stop"]
ON_TABLE_ERROR: OnTableError = "continue"


def build_batch(
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

    Args:
        source: the source's URL, with its secrets.
        target: the target's URL, with its secrets.
        tables: patterns, or the arguments of a table as a mapping.
        file: a file of many tables, from which `tables` selects; None if `tables` lists them all.
        environ: variables for references in the file; None to leave references unresolved.
        exclude: patterns of tables to leave out.
        target_schema: the schema of all target tables; None for the schema of each source table.
        on_table_error: `continue` or `stop` after a table has failed.
        options: options for all tables, by name.
        run_id: the id of the batch; None for a random one.

    Raises:
        UsageError: an option is wrong; the message names the argument, and the table if the option
            is the table's own.
    """
    listed = _table_list(tables) if tables or file is None else ()
    raw = {
        **tuples_as_lists(options),
        "source": source,
        "target": target,
        "run_id": run_id,
        "tables": [table for table in listed if isinstance(table, str)],
        "exclude": exclude if isinstance(exclude, str) else list(exclude),
        "target_schema": target_schema,
        # The file may set what the call leaves out.
        "on_table_error": None if on_table_error == ON_TABLE_ERROR else on_table_error,
        "table": [tuples_as_lists(table) for table in listed if isinstance(table, Mapping)],
    }
    values = {name: value for name, value in raw.items() if value not in (None, "", [])}
    with _no_sections_in_errors(), arguments_in_errors():
        if file is None:
            return BatchSpec.from_mapping(values, ORIGIN)
        return batch_of_file(file, values, environ)


def check_batch(
    source: Endpoint,
    target: Endpoint,
    *,
    tables: Any,
    options: Mapping[str, Any],
    **arguments: Any,
) -> None:
    """Find mistakes that do not depend on templates.

    Args:
        source: where the batch reads.
        target: where the batch writes.
        tables: as for `build_batch`.
        options: as for `build_batch`.
        arguments: further arguments of `build_batch`.

    Raises:
        PlanningError: the source or target does not support the argument in the message.
        UsageError: the argument in the message is wrong; the message names the table if the
            argument is the table's own.
    """
    for endpoint in (source, target):
        if endpoint.located:
            raise UsageError(
                f"{endpoint.side}: expected a database, found a URL of files, which are one table; "
                "copy each table with a task of its own"
            )
    if arguments.get("file") is not None:
        _check_file(source, target, tables=tables, options=options, **arguments)
        return
    if is_dynamic(tables):
        return
    tables_with_options = [table for table in _table_list(tables) if isinstance(table, Mapping)]
    # Patterns may find tables that no option names.
    for table in [{"table": "some.table"}] * (
        len(tables_with_options) < len(tables)
    ) + tables_with_options:
        table_options = {str(name).replace("-", "_"): value for name, value in table.items()}
        try:
            check_arguments(table_options, known=OPTIONS, options=_known(table_options))
            check_options({**options, **table_options}, source, target)
        except (PlanningError, UsageError) as error:
            prefix = (
                f"{table_options.get('table') or table_options.get('target_table')}: "
                if table in tables_with_options
                else ""
            )
            raise type(error)(prefix + error.message) from None
    if not any(
        is_dynamic(value) for value in (*options.values(), *arguments.values(), *tables)
    ) and not (any(is_dynamic(value) for table in tables_with_options for value in table.values())):
        build_batch(source.sample, target.sample, tables=tables, options=options, **arguments)


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a table may have, without those that are unknown."""
    return {name: value for name, value in options.items() if name in OPTIONS}


def _check_file(
    source: Endpoint, target: Endpoint, *, tables: Any, options: Mapping[str, Any], **arguments: Any
) -> None:
    """Check the file without environment variables, because tasks have their own environment."""
    if not is_dynamic(tables) and any(isinstance(table, Mapping) for table in tables):
        raise UsageError(
            "tables: with file, expected patterns that select from its tables; found the arguments "
            "of a table: put them into a section of the file"
        )
    static_options = {name: value for name, value in options.items() if not is_dynamic(value)}
    static_arguments = {name: value for name, value in arguments.items() if not is_dynamic(value)}
    batch_arguments = {"exclude": (), "target_schema": None, **static_arguments}
    batch = build_batch(
        source.sample,
        target.sample,
        tables=(),
        options=static_options,
        environ=None,
        **batch_arguments,
    )
    with arguments_in_errors():
        for spec in batch.named_tables():
            try:
                check_request(spec)
            except (PlanningError, UsageError) as error:
                raise type(error)(f"{spec.source_name}: {error.message}") from None


def tables_of_file(
    file: str, endpoints: Mapping[str, Any], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the arguments of `copy_tables` for each table of a file.

    Args:
        file: the path of the file.
        endpoints: the result of `endpoints_of_file`.
        options: options that override those that the file sets for all tables.

    Raises:
        UsageError: the file is wrong, or names no table; only the source knows which tables a
            pattern matches.
    """
    placeholders = {"source": "env:SOURCE", "target": "env:TARGET"}
    with arguments_in_errors():
        batch = batch_of_file(file, {**tuples_as_lists(options), **placeholders})
        specs = batch.named_tables()
        if not specs:
            raise UsageError(
                f"{file}: expected sections that name tables, because copy_tables creates a task "
                "for each and only the source knows what a pattern matches; CopyAllOperator "
                "supports patterns"
            )
    options_of_tables = [{name: getattr(spec, name) for name in OPTIONS} for spec in specs]
    return [
        {**non_default_options(table_options), **endpoints} for table_options in options_of_tables
    ]


def endpoints_of_file(file: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source and target of a call, with the file's for those that it leaves out.

    Args:
        file: the path of the file.
        arguments: the result of `endpoint_arguments`.

    Raises:
        UsageError: the file cannot be read, or is wrong.
    """
    placeholders = {
        side: f"env:{side.upper()}"
        for side in ("source", "target")
        if arguments.get(side) is not None or arguments.get(f"{side}_conn_id") is not None
    }
    with arguments_in_errors():
        batch = batch_of_file(file, placeholders, None)
    missing = [side for side in ("source", "target") if side not in placeholders]
    return {**arguments, **{side: getattr(batch, side) for side in missing}}


def _table_list(tables: Any) -> Tables:
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
def _no_sections_in_errors() -> Iterator[None]:
    """Leave the sections of a TOML file out of errors, because a DAG has none."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.message.removeprefix("[[table]] ")) from None
