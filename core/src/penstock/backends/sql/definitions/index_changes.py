"""Indexes that are dropped before a load and recreated after it, where DDL commits by itself.

Such a step may already be done, or the table may have been changed since the plan. So a step names
its indexes, and checks which of them exist before it changes anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.backends.sql.dialect import CatalogDialect
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import Step
from penstock.model.tables import TableRef

DROP, MAKE = "drop indexes", "make indexes"
"""The ids of the steps, and their kinds."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """A change to one table's indexes. If it is interrupted, the rest can be done later."""

    table: TableRef
    indexes: Mapping[str, str]
    """By name, in the form of the database's catalog."""
    creates: bool
    """Whether indexes are created; otherwise they are dropped."""
    exact: bool = True
    """Whether the catalog will return the same text; otherwise it comes from another server."""

    def step(self, dialect: CatalogDialect) -> Step:
        name, what = (MAKE, "make") if self.creates else (DROP, "drop")
        content = {"indexes": self.indexes, "exact": self.exact}
        return Step(
            name,
            f"{what} {'index' if len(self.indexes) == 1 else 'indexes'} "
            f"{', '.join(self.indexes)} of {self.table}",
            self.statement(dialect),
            after=self.creates,
            done=json.dumps(content),
            kind=name,
        )

    @classmethod
    def of(cls, step: Step, table: TableRef) -> IndexChange | None:
        """Return the change of a step; None for a step of another kind."""
        if step.kind not in (DROP, MAKE):
            return None
        content: dict[str, Any] = json.loads(step.done)
        return cls(table, content["indexes"], step.kind == MAKE, content["exact"])

    def statement(self, dialect: CatalogDialect) -> str:
        if self.creates:
            return dialect.index_statements(self.table, list(self.indexes.values()))
        return dialect.drop_indexes_statement(self.table, list(self.indexes))

    def is_done(self, existing: Mapping[str, str]) -> bool:
        """Whether the change has been made.

        Args:
            existing: all indexes of the table, by name.
        """
        if not self.creates:
            return not self.indexes.keys() & existing.keys()
        return all(
            name in existing and (existing[name] == text or not self.exact)
            for name, text in self.indexes.items()
        )

    def remaining(self, existing: Mapping[str, str]) -> IndexChange:
        """Return the part of the change that remains to be made.

        Args:
            existing: as for `is_done`.

        Raises:
            PermanentError: another index has one of these names; nothing should be changed.
        """
        replaced = {
            name: existing[name]
            for name, text in self.indexes.items()
            if name in existing and self.exact and existing[name] != text
        }
        for name, definition in replaced.items():
            advice = (
                "drop or rename that one, and resume"
                if self.creates
                else "it has changed since the run was planned; start a new run"
            )
            raise PermanentError(
                f"target: index {name} of {self.table}: expected {self.indexes[name]}, found "
                f"{definition}; {advice}",
                Diagnosis(side="target"),
            )
        indexes = {
            name: text for name, text in self.indexes.items() if (name in existing) != self.creates
        }
        return replace(self, indexes=indexes)
