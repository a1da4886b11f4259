"""Facts about DuckDB's tables for a load: keys, and whether a table can be replaced."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import duckdb

from penstock.backends.api.facts import LoadRequest
from penstock.backends.duckdb.catalog.tables import (
    constraints,
    definition_of,
    index_definitions,
    unique_keys,
)
from penstock.backends.duckdb.connection import instance
from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.duckdb.errors import first_lines
from penstock.backends.duckdb.load.numbering import advance_steps, numbering_steps
from penstock.backends.shared.values.arrow import value_kinds
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.catalog.relations import check_is_table
from penstock.backends.sql.definitions.definition import TableExtras, listed_columns
from penstock.backends.sql.definitions.rendering import Rendered, with_final_name
from penstock.backends.sql.loads.load_plan import TargetTables
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.plans import Step
from penstock.model.tables import Column, TableRef

# The text before the columns in DuckDB's definition of a table.
_HEAD = re.compile(r'CREATE TABLE (?:(?:"(?:[^"]|"")*"|[^\s."(]+)\.?)+\s*\(')


_REFERENCES = TableQuery(
    "schema_name || '.' || table_name",
    "duckdb_constraints()",
    "schema_name",
    "referenced_table",
    "database_name = {catalog} AND constraint_type = 'FOREIGN KEY'"
    " AND NOT table_name = referenced_table",
)
"""Maps a table to the tables whose foreign keys reference it."""


class DuckTables(TargetTables):
    """Tables that Penstock creates in DuckDB."""

    # Keys and indexes slow down loads, and are checked against deleted rows.
    makes_whole = False
    unique_keys = staticmethod(unique_keys)

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        return value_kinds(columns)

    def clone_statements(
        self, session: Session, table: TableRef, new_table: TableRef
    ) -> tuple[str, list[str]]:
        body = _HEAD.sub("", definition_of(session, table), count=1).rstrip().removesuffix(";")
        indexes = [sql.rstrip().rstrip(";") for _, sql in index_definitions(session, table) if sql]
        return f"CREATE TABLE {DUCKDB.table(new_table)} ({body}", indexes

    def refused_keys(
        self,
        session: Session,
        columns: Sequence[Column],
        clauses: Sequence[str],
        *,
        same_system: bool,
    ) -> Mapping[str, str]:
        if same_system:
            return {}
        listed = ", ".join(listed_columns(DUCKDB, columns))
        reasons = {}
        with instance() as scratch:
            for clause in clauses:
                try:
                    scratch.execute(f"CREATE OR REPLACE TEMP TABLE made ({listed}, {clause})")
                except duckdb.Error as error:
                    reasons[clause] = first_lines(str(error))
            scratch.execute("DROP TABLE IF EXISTS temp.made")
        return reasons

    def rendered_extras(
        self,
        session: Session,
        request: LoadRequest,
        extras: TableExtras,
        rendered: Rendered,
        loaded: TableRef,
    ) -> TableExtras:
        # A table with indexes cannot be renamed, and sequences are named after their table.
        parts = super().rendered_extras(session, request, extras, rendered, loaded)
        numbering = numbering_steps(session.dialect, request, rendered.sequences)
        indexes = (with_final_name(step, loaded, request.target) for step in parts.after)
        return replace(parts, after=(), late=(*numbering, *indexes, *parts.late))

    def advance_steps(self, session: Session, request: LoadRequest) -> Sequence[Step]:
        return tuple(advance_steps(session, request))

    def check_replaceable(
        self, session: Session, table: TableRef, option: str, recreated: Collection[TableRef] = ()
    ) -> None:
        """Check that a table can be replaced.

        Args:
            session: a session with the target.
            table: the table to replace.
            option: the option that requires it, for messages.
            recreated: other tables that are recreated along with this one.

        Raises:
            PlanningError: the table is a view, or foreign keys point to or from it.
        """
        check_is_table(session, table, option)
        foreign_keys = [c.text for c in constraints(session, table) if c.kind == "FOREIGN KEY"]
        if foreign_keys and option == "--mode swap":
            raise PlanningError(
                f"{option}: {table} has foreign keys, so DuckDB cannot rename it: "
                f"{'; '.join(foreign_keys)}; use --mode truncate, which keeps the table"
            )
        referencing = session.about(_REFERENCES, table)
        if referencing:
            raise PlanningError(
                f"{option}: foreign keys of other tables reference {table}: "
                f"{', '.join(name for (name,) in referencing)}; drop them first"
            )
