"""Checks and indexes of another system's table, which the new table may do without."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.backends.postgresql.ddl.steps import LAST
from penstock.backends.postgresql.ddl.text import shorten, temporary_name
from penstock.backends.postgresql.session.statements import ident, name
from penstock.backends.sql.definitions.rendering import Clause, Rendered, steps_of
from penstock.model.plans import Step
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class LateParts:
    """The parts that are created after all other changes to the table's own catalog row.

    Args:
        rendered: the table in the target's dialect.
        table: the table, by the name that it has in the end.
    """

    rendered: Rendered
    table: TableRef

    def steps(self, run_id: str, made: TableRef) -> list[Step]:
        """Return the steps that create them; each is left out if the server rejects it.

        Args:
            run_id: the run that builds the table.
            made: the name under which it is built.
        """
        checks, indexes = self.rendered.checks, self.rendered.indexes
        statements = [
            *(self._check(place, check, made) for place, check in enumerate(checks, 1)),
            *(
                f"CREATE {f'{each.kind} INDEX'.lstrip()}"
                f" {ident(self._index_name(run_id, each, made))} ON {name(made)} {each.text}"
                for each in indexes
            ),
        ]
        steps = steps_of(self.rendered, made, LAST)
        return [
            replace(step, statement=statement)
            for step, statement in zip(steps, statements, strict=True)
        ]

    def _check(self, place: int, check: Clause, made: TableRef) -> str:
        is_named = not check.text.startswith(f"CHECK ({check.name})")
        # The server would name it after the table that is built.
        called = check.name if is_named else shorten(self.table.name, f"_check{place}")
        return f"ALTER TABLE {name(made)} ADD CONSTRAINT {ident(called)} {check.text}"

    def _index_name(self, run_id: str, index: Clause, made: TableRef) -> str:
        return index.name if made == self.table else temporary_name(run_id, index.name)

    def rename_statements(self, run_id: str) -> list[str]:
        """Return statements that give the indexes their names; one of them may not exist."""
        schema = self.table.schema
        return [
            f"ALTER INDEX IF EXISTS {ident(schema, temporary_name(run_id, each.name))}"
            f" RENAME TO {ident(each.name)}"
            for each in self.rendered.indexes
        ]
