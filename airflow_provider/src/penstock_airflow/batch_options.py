"""Options of a batch as arguments of an operator: made into a `BatchSpec`, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from penstock import BatchSpec, PlanningError, UsageError
from penstock_airflow.ends import End
from penstock_airflow.options import ORIGIN, check, is_open, lists_as_lists, python_names

Tables = Sequence[str | Mapping[str, Any]]
OnTableError = Literal["continue", "stop"]


def make_batch(
    source: str,
    target: str,
    *,
    tables: Tables,
    exclude: Sequence[str] | str,
    target_schema: str | None,
    on_table_error: str,
    options: Mapping[str, Any],
    run_id: str | None = None,
) -> BatchSpec:
    """
    Parameters:
        source, target: URLs, with their secrets.

    Raises:
        UsageError: names the argument, and the table where it is one of its own.
    """
    raw = {
        **lists_as_lists(options),
        "source": source,
        "target": target,
        "run_id": run_id,
        "tables": [table for table in _listed(tables) if isinstance(table, str)],
        "exclude": exclude if isinstance(exclude, str) else list(exclude),
        "target_schema": target_schema,
        "on_table_error": on_table_error,
        "table": [lists_as_lists(table) for table in tables if isinstance(table, Mapping)],
    }
    with _without_sections(), python_names():
        return BatchSpec.from_mapping(
            {name: value for name, value in raw.items() if value not in (None, "", [])}, ORIGIN
        )


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
        PlanningError: names the argument that an end does not support.
        UsageError: names the argument, and the table where it is one of its own.
    """
    for end in (source, target):
        if end.located:
            raise UsageError(
                f"{end.side}: copying many tables needs a database; this URL leads to files, which "
                "are one table: copy each table by itself, with its own URL"
            )
    if is_open(tables):
        return
    named = [table for table in _listed(tables) if isinstance(table, Mapping)]
    # Patterns find tables that no option names.
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


def _listed(tables: Any) -> Tables:
    """
    Raises:
        UsageError: not a list of patterns and mappings.
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
    """Errors without the sections of a TOML file, which a DAG does not have."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.message.removeprefix("[[table]] ")) from None
