"""Schema lookup for tables and patterns that are specified without a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import escape
from typing import Any

from penstock.backends.api.source import Schemas, SourceCatalog
from penstock.errors import PlanningError, nearest
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec


def lacks_schema(spec: CopySpec) -> bool:
    """Whether a table is named without a schema."""
    tables = [spec.table_ref] if spec.table is not None else []
    tables += [spec.target_ref] if spec.target_table is not None else []
    return not all(table.schema for table in tables)


def with_schemas(
    spec: CopySpec, source: SourceCatalog, target: Schemas | None
) -> tuple[CopySpec, tuple[str, ...]]:
    """Return the spec with a schema for each table, and a line about each schema looked up.

    Args:
        spec: the copy.
        source: the source's schemas.
        target: the target's schemas; None if its URL leads to the rows themselves.

    Raises:
        PlanningError: the source's search path has no such table, or the target's has no schema.
    """
    lines = []
    if spec.table is not None and not spec.table_ref.schema:
        name = spec.table_ref.name
        table = source.find(name)
        if table is None:
            schemas = [f"{escape(schema)}.*" for schema in source.schemas()]
            near = nearest(name, (each.name for each in source.tables(schemas, ())))
            meant = f"did you mean {' or '.join(near)}? Otherwise, " if near else ""
            raise PlanningError(
                f"--table {name}: no such table in the source's search path "
                f"({_schema_list(source)}); {meant}name its schema, as in SCHEMA.{name}"
            )
        lines.append(f"table {name}: {table}, by the source's search path")
        spec = replace(spec, table=str(table), target_table=spec.target_table or spec.table)
    target_table = spec.target_table
    if target is None or target_table is None or spec.target_ref.schema:
        # The target's URL takes the place of a name.
        return (replace(spec, target_table=None) if target is None else spec), tuple(lines)
    name = spec.target_ref.name
    found_table = target.find(name)
    if found_table is not None:
        lines.append(f"target table {name}: {found_table}, by the target's search path")
        return replace(spec, target_table=str(found_table)), tuple(lines)
    if spec.table is not None and spec.table_ref.name == name:
        resolved, why = spec.table_ref, "as in the source"
    else:
        first, *_ = target.schemas() or ("",)
        if not first:
            raise PlanningError(
                f"--target-table {name}: the target's search path has no schema; name one, as in "
                f"SCHEMA.{name}"
            )
        resolved, why = TableRef(first, name), "in its first schema"
    lines.append(
        f"target table {name}: {resolved}, {why}, since the target's search path "
        f"({_schema_list(target)}) has no {name}"
    )
    return replace(spec, target_table=str(resolved)), tuple(lines)


def with_stored_schemas(spec: CopySpec, stored: Mapping[str, Any]) -> CopySpec:
    """Return the spec with the schemas with which its run was planned.

    Args:
        spec: the copy.
        stored: the stored options of the run.
    """
    changes = {}
    for option in ("table", "target_table"):
        current_text = getattr(spec, option) or (spec.table if option == "target_table" else None)
        then = stored.get(option)
        if current_text is None or then is None:
            continue
        current, planned = (TableRef.parse(text, f"--{option}") for text in (current_text, then))
        if not current.schema and current.name == planned.name:
            changes[option] = then
    return replace(spec, **changes)


def with_searched(patterns: Sequence[str], source: Schemas) -> tuple[str, ...]:
    """Repeat each pattern of tables without a schema for every schema of the search path."""
    qualified: list[str] = []
    for pattern in patterns:
        if "." in pattern:
            qualified.append(pattern)
        else:
            qualified += (f"{escape(schema)}.{pattern}" for schema in source.schemas())
    return tuple(qualified)


def with_any_schema(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns of tables to leave out; one without a schema matches in any schema."""
    return tuple(pattern if "." in pattern else f"*.{pattern}" for pattern in patterns)


def _schema_list(side: Schemas) -> str:
    return ", ".join(side.schemas()) or "empty"
