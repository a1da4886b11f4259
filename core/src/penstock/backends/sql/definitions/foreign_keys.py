"""Foreign keys, created once all tables are loaded, and dropped before one is recreated."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.backends.sql.definitions.definition import KINDS
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session
from penstock.model.plans import Step
from penstock.model.tables import NotCopied, TableRef

REFER, UNLINK, RELINK = "refer", "unlink", "link again"
"""The kinds of steps."""


@dataclass(frozen=True, slots=True)
class ForeignKeyChange:
    """A foreign key to create or to drop."""

    table: TableRef
    """The table of the constraint."""
    name: str
    definition: str = ""
    """The text from FOREIGN KEY on."""
    target: TableRef | None = None
    """The referenced table, if the key can be created."""
    kind: str = REFER

    @classmethod
    def of(cls, step: Step) -> ForeignKeyChange | None:
        """Return the change of a step; None for a step of another kind."""
        if step.kind not in (REFER, UNLINK, RELINK):
            return None
        schema, table, name = json.loads(step.done)
        return cls(TableRef(schema, table), name, kind=step.kind)

    @property
    def id(self) -> str:
        """The id of its step."""
        return f"{self.kind} {self.table} {self.name}"

    def step(self, dialect: CatalogDialect) -> Step:
        """Return the step that creates the key.

        If the database rejects it, the run finishes without it, and reports that.
        """
        drops = self.kind == UNLINK
        what = {REFER: "add", UNLINK: "drop", RELINK: "restore"}[self.kind]
        return Step(
            self.id,
            f"{what} foreign key {self.name} of {self.table}",
            dialect.drop_foreign_key_statement(self.table, self.name)
            if drops
            else self._create_statement(dialect),
            after=not drops,
            # After the indexes, one of which it uses.
            rank=1,
            instead=None if drops else self.not_copied(dialect),
            done=json.dumps([self.table.schema, self.table.name, self.name]),
            kind=self.kind,
        )

    def _create_statement(self, dialect: CatalogDialect) -> str:
        return dialect.foreign_key_statement(self.table, self.name, self.definition)

    def not_copied(self, dialect: CatalogDialect) -> NotCopied:
        remedy = f"{self._create_statement(dialect)};"
        return NotCopied(KINDS["FOREIGN KEY"], self.name, remedy, str(self.table))

    def exists(self, session: Session) -> bool:
        place = session.dialect.placeholder
        rows = session.fetch(
            "SELECT 1 FROM information_schema.table_constraints"
            f" WHERE table_schema = {place(1)} AND table_name = {place(2)}"
            f" AND constraint_name = {place(3)} AND constraint_type = 'FOREIGN KEY'",
            f"table {self.table}",
            [self.table.schema, self.table.name, self.name],
        )
        return bool(rows)
