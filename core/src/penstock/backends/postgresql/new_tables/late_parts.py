"""Checks and indexes of another system's table, which the new table may do without."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penstock.backends.postgresql.ddl.steps import LAST
from penstock.backends.postgresql.ddl.text import shorten, temporary_name
from penstock.backends.postgresql.session.statements import ident, name
from penstock.backends.sql.definitions.rendering import Clause, Rendered, steps_of
from penstock.model.plans import Step
from penstock.model.tables import TableRef

_QUOTED = re.compile(r'"([^"]+)"')


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
            *(
                f"ALTER TABLE {name(made)} ADD CONSTRAINT {ident(called)} {check.text}"
                for called, check in zip(self._check_names(), checks, strict=True)
            ),
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

    def _check_names(self) -> list[str]:
        """Return the names of the checks.

        Those without one are named as the server would, but after the table's own name.
        """
        names: list[str] = []
        for check in self.rendered.checks:
            called, count = check.name, 0
            if check.text.startswith(f"CHECK ({called})"):
                columns = set(_QUOTED.findall(check.text))
                column = f"_{columns.pop()}" if len(columns) == 1 else ""
                called = shorten(self.table.name, f"{column}_check")
            preferred = called
            while called in names:
                count += 1
                called = shorten(preferred, str(count))
            names.append(called)
        return names

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
