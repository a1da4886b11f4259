"""A separate database next to a target's, with a table like another one, for measurements.

It is a separate file: a file keeps its size after rows are loaded and dropped, and other processes
cannot open one that is being written.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from penstock.backends.duckdb.catalog.definition import DIALECT
from penstock.backends.duckdb.catalog.tables import constraints
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.dialect import DUCKDB, ident
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.load.load_plan import DuckTables
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.scratch_folder import ScratchFolder
from penstock.backends.shared.scratch_schema import NEEDED_BY
from penstock.backends.sql.catalog.relations import check_is_table, read_relations
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

# What a table like another may need: defaults take numbers from sequences.
_AROUND = (
    ("SCHEMA", "SELECT schema_name, '' FROM duckdb_schemas() WHERE database_name = $1"),
    (
        "SEQUENCE",
        "SELECT schema_name, sequence_name FROM duckdb_sequences() WHERE database_name = $1",
    ),
)


class DuckScratch(ScratchFolder):
    """A scratch database.

    Args:
        like: as for `WithScratch.scratch`.
    """

    def __init__(self, path: str | None, like: TableRef | None) -> None:
        if path is None:
            raise PlanningError(
                f"{NEEDED_BY}: expected a database file, found a database in memory"
            )
        super().__init__(path)
        self._like = like
        self._context_statements: list[str] = []
        self._table_statements: list[str] = []
        with Database(path).reading() as session, planning("target", NEEDED_BY):
            self._read(session)

    def _target(self) -> str:
        return f"duckdb:///{quote(self._path)}"

    @property
    def _path(self) -> str:
        return f"{self.folder}/scratch.duckdb"

    def _read(self, session: DuckSession) -> None:
        like = self._like
        for kind, query in _AROUND:
            for parts in session.connection.execute(query, [session.catalog]).fetchall():
                name = ".".join(ident(part) for part in parts if part)
                self._context_statements.append(f"CREATE {kind} IF NOT EXISTS {name}")
        if like is None or like not in read_relations(session):
            return  # the copy creates it
        check_is_table(session, like, NEEDED_BY)
        if any(constraint.kind == "FOREIGN KEY" for constraint in constraints(session, like)):
            raise PlanningError(
                f"{NEEDED_BY}: {like} has foreign keys, which a table in another file cannot have"
            )
        create, indexes = DuckTables(DIALECT).clone_statements(session, like, like)
        self._table_statements = [f"DROP TABLE IF EXISTS {DUCKDB.table(like)}", create, *indexes]

    def _create(self) -> None:
        self._run(self._context_statements)

    def make_table(self) -> None:
        self._run(self._table_statements)

    def _run(self, statements: Sequence[str]) -> None:
        subject = f"{NEEDED_BY}: a table like {self._like}"
        with Database(self._path).writing() as session, planning("target", subject):
            for statement in (*statements, "COMMIT"):
                session.connection.execute(statement)


open_scratch = DuckScratch
