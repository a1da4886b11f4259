"""What to copy: the source of the rows, the selection from them, and their target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, get_args

from penstock.errors import UsageError
from penstock.model.tables import Located, Query, Relation, TableRef
from penstock.spec.masks import Mask, meets, parse_expressions, parse_masks
from penstock.spec.option import option
from penstock.spec.references import redact

Map = Literal["name", "position"]
MAPS = get_args(Map)
Descendants = Literal["include", "exclude"]
DESCENDANTS = get_args(Descendants)
UNNAMED = "target"
"""The name shown for a target's table if the target's URL leads to the rows."""


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Route:
    """The options under "what to copy"."""

    title: ClassVar[str] = "what to copy"

    source: str = field(
        repr=False,
        metadata={
            "help": "the source: a URL, a path that starts with /, ./ or ../, or where to find the "
            "URL: env:NAME, an environment variable, or file:/PATH, a file",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    target: str = field(
        repr=False,
        metadata={
            "help": "the target: a URL, a path that starts with /, ./ or ../, or where to find the "
            "URL: env:NAME, an environment variable, or file:/PATH, a file",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    table: str | None = option(
        None,
        "the table to read; without a schema, the first match in the source's search path. Put "
        "a name that contains a dot in double quotes. Not needed if --source points to the rows "
        "themselves, as with files",
        metavar="[SCHEMA.]NAME",
    )
    query: str | None = option(
        None, "read the result of this query instead of a table", metavar="SQL"
    )
    target_table: str | None = option(
        None,
        "the table to write (default: the name of --table); without a schema, the first match "
        "in the target's search path, else the schema of --table. Not needed if --target points "
        "to files",
        metavar="[SCHEMA.]NAME",
    )
    where: str | None = option(
        None, "copy only rows that satisfy this SQL condition", metavar="SQL"
    )
    columns: tuple[str, ...] | None = option(
        None, "copy only these columns, separated by commas (default: all)", metavar="A,B"
    )
    exclude_columns: tuple[str, ...] | None = option(
        None,
        "copy all columns except these, separated by commas; a name may be a pattern ('tmp_*')",
        metavar="A,B",
    )
    set: tuple[str, ...] | None = option(
        None,
        "compute a column on the source with an SQL expression, such as 'email=lower(email)'; "
        "the source need not have the column; repeatable",
        metavar="COLUMN=SQL",
    )
    mask: tuple[str, ...] | None = option(
        None,
        "mask a column on the source, so that its plain values never leave it: hash (SHA-256), "
        "hmac:env:NAME (HMAC-SHA-256 with the key in that environment variable), null, last4 "
        "(all but the last four characters become *), year (January 1 of the year); a column "
        "may be a pattern ('*email'); repeatable",
        metavar="COLUMN=MASK",
    )
    map: Map = option(
        "name",
        "match source and target columns by name or by position",
        choices=MAPS,
    )
    descendants: Descendants | None = option(
        None,
        "whether to read the rows of tables that inherit from the table (default: include, "
        "unless the same batch copies those tables)",
        choices=DESCENDANTS,
    )

    @cached_property
    def relation(self) -> Relation:
        """The table, query or location from which rows are read."""
        if self.table is not None and self.query is not None:
            raise UsageError("--table, --query: found both; pass either --table or --query")
        if self.query is not None:
            return Query(self.query)
        if self.table is None:
            return Located()
        return replace(self.table_ref, only=self.descendants == "exclude")

    @cached_property
    def table_ref(self) -> TableRef:
        """The source's table, which must be named."""
        assert self.table is not None
        return TableRef.parse(self.table, "--table")

    @cached_property
    def target_ref(self) -> TableRef:
        """The target's table; without a schema if the URL leads to the rows and none is named."""
        return target_of(self.table, self.target_table)

    @cached_property
    def expressions(self) -> dict[str, str]:
        """The expressions of `set`, by column."""
        return parse_expressions(self.set)

    @cached_property
    def masks(self) -> dict[str, Mask]:
        """The masks of `mask`, by column or pattern."""
        return parse_masks(self.mask)

    @cached_property
    def source_name(self) -> str:
        """A human-readable description of what is read."""
        relation = self.relation
        if isinstance(relation, Located):
            return getattr(self.source, "description", "") or redact(self.source)
        return str(relation)

    @cached_property
    def target_name(self) -> str:
        """A human-readable description of what is written.

        If the target's URL leads to the rows themselves, the table is only the source's name for
        them, so this shows both.
        """
        if self.target_table is not None:
            return str(self.target_ref)
        place = redact(self.target)
        return place if self.table is None else f"{self.table_ref} in {place}"

    def excludes(self, column: str) -> bool:
        """Whether a column of the source is left out by its name."""
        return any(meets(column, rule) for rule in self.exclude_columns or ())

    def mask_of(self, column: str) -> Mask | None:
        """Return a column's mask: the one for its name, else the first whose pattern matches."""
        if column in self.masks:
            return self.masks[column]
        return next((mask for rule, mask in self.masks.items() if meets(column, rule)), None)

    def hides(self, column: str) -> bool:
        """Whether the values of a column do not leave the source, by an option that names it."""
        return (
            self.excludes(column) or column in self.expressions or self.mask_of(column) is not None
        )


def target_of(table: str | None, target_table: str | None) -> TableRef:
    """Return the target's table, given the options `table` and `target_table`."""
    if target_table is not None:
        return TableRef.parse(target_table, "--target-table")
    return TableRef("", UNNAMED) if table is None else TableRef.parse(table, "--table")
