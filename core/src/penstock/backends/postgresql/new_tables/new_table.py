"""The steps that create a table from a definition, and complete it after the load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.sequences import ColumnSequence
from penstock.backends.postgresql.ddl import completion, indexes, steps, tables
from penstock.backends.postgresql.ddl.text import Names, comment
from penstock.backends.postgresql.ddl.types import create_type
from penstock.backends.postgresql.load.sequences import advance_steps
from penstock.backends.postgresql.load.target_facts import WHOLE_NUMBERS, TargetFacts
from penstock.backends.postgresql.new_tables.rehearsal import NEEDS as MAKING
from penstock.backends.postgresql.session.statements import ident, name
from penstock.model.plans import Step

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart, TypePart


class NewTable:
    """A table that is created from a definition, under its own name or a temporary one.

    Args:
        facts: the facts about the target.
        request: the request.
        definitions: the table's definition, followed by those of the tables it consists of.
        types: the types that are created with it.
        names: the names that they have in the end.
        made: the names under which they are created, if these are others.
    """

    def __init__(
        self,
        facts: TargetFacts,
        request: LoadRequest,
        definitions: Sequence[TablePart],
        types: Sequence[TypePart],
        names: Names,
        made: Names | None = None,
    ) -> None:
        self._facts = facts
        self._version = facts.connection.info.server_version
        self._request = request
        self._definitions = definitions
        self._types = types
        self._names = names
        self._made = made or names
        self.table = self._made.table(definitions[0])
        self.ref = names.table(definitions[0])
        self.is_volatile = request.unlogged or any(
            each["persistence"] == "u" and each["partition_key"] is None for each in definitions
        )
        """See `LoadPlan.volatile`."""

    def create_steps(self, *more: str) -> list[Step]:
        """Return the steps that create the table before the load.

        Args:
            *more: statements that follow its creation.
        """
        root, *children = self._definitions
        return [
            steps.before("drop", f"drop {self.table}", f"DROP TABLE IF EXISTS {name(self.table)}"),
            *self.schema_steps(),
            *self._type_steps(),
            self._create_step(root, *more),
            *map(self._create_step, children),
        ]

    def schema_steps(self) -> list[Step]:
        """Return steps that create the schemas that do not exist, unless another run has done so.

        They get the comments of the source's schemas.
        """
        names = self._names
        schemas = {ref.schema for ref in (*names.tables.values(), *names.sequences.values())}
        schemas |= {type_["schema"] for type_ in self._types}
        comments = {type_["schema"]: type_.get("schema_comment") for type_ in self._types}
        comments |= {
            names.table(each).schema: each.get("schema_comment") for each in self._definitions
        }
        return [
            replace(
                steps.before(
                    f"schema {schema}",
                    f"create schema {schema}",
                    f"CREATE SCHEMA IF NOT EXISTS {ident(schema)}",
                    *comment("SCHEMA", ident(schema), comments.get(schema)),
                ),
                makes_schema=schema,
                done=completion.has_schema(schema),
            )
            for schema in sorted(schemas)
            if not self._facts.creatable(schema, MAKING)
        ]

    def _type_steps(self) -> list[Step]:
        """Return steps that create types, unless another run has done so."""
        return [
            Step(
                f"type {each['oid']}",
                f"create type {each['schema']}.{each['name']}",
                create_type(each),
                done=completion.has_type(each["schema"], each["name"]),
            )
            for each in self._types
            if each["oid"]
        ]

    def _create_step(self, table: TablePart, *more: str) -> Step:
        ref, becomes = self._made.table(table), self._names.table(table)
        return steps.before(
            f"create {table['oid']}",
            f"create {ref}" if ref == becomes else f"create {ref}, to become {becomes}",
            # Types of its columns alone are created with it, or not at all.
            *(create_type(each) for each in self._types if not each["oid"]),
            *self.creation(table),
            *more,
        )

    def creation(self, table: TablePart) -> list[str]:
        """Return statements that create one of the tables, without what follows the load."""
        persistence = "u" if self._request.unlogged else table["persistence"]
        keeps_positions = self._request.sequence_positions is None
        return [
            *tables.create_table(table, self._made, persistence=persistence, version=self._version),
            *tables.set_sequences(table, self._made, keep=keeps_positions),
            *tables.comments(table, self._made, self._version),
        ]

    def advance_steps(self) -> list[Step]:
        """Return steps that advance the table's sequences."""
        table, names = self._definitions[0], self._made
        sequences = [
            ColumnSequence(item["column"], ref, item["increment"])
            for item in (*table["sequences"], *table["used_sequences"])
            if (ref := names.sequences.get((item["schema"], item["name"]))) is not None
        ]
        integers = {each["name"] for each in table["columns"] if each["type"] in WHOLE_NUMBERS}
        only = table["partition_key"] is None
        return advance_steps(self._request, self.table, sequences, integers, only=only)

    def completion_steps(self, *, unchecked: bool = True) -> Iterator[Step]:
        """Yield the steps that complete the tables after the load.

        Args:
            unchecked: whether to create the constraints that rows may violate.
        """
        names = self._made
        for table in self._definitions:
            is_set = table["persistence"] == "p" and table["partition_key"] is None
            if self._request.unlogged and is_set:
                yield steps.set_logged(names.table(table), table["oid"])
        yield from indexes.build_steps(self._definitions, names, tablespaces=False)
        for table in self._definitions:
            constraints = tables.unchecked_constraints(table, names) if unchecked else []
            if late := [*constraints, *tables.create_statistics(table, names)]:
                what = "statistics and constraints" if constraints else "statistics"
                yield steps.after(
                    f"complete {table['oid']}",
                    f"create {what} of {names.table(table)}",
                    steps.COMPLETE,
                    *late,
                    done=completion.is_complete(table, names, policies=False),
                )

    def swap_step(self, planned: Sequence[Step], *statements: str, replaces: bool = True) -> Step:
        """Return the step that gives the tables their names.

        Args:
            planned: the steps that come before it.
            *statements: the statements, executed in one transaction.
            replaces: whether there is a table that has these names until then.
        """
        new, ref = self.table, self.ref
        what = f"swap {new} for {ref}" if replaces else f"rename {new} to {ref}"
        rank = 1 + max((step.rank for step in planned), default=0)
        return steps.after(steps.SWAP, what, rank, *statements, urgent=True)
