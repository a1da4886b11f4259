"""`ReadSpec`, the user's request for rows as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from penstock.model.values import ShowValues
from penstock.spec.copy_spec import CopySpec
from penstock.spec.groups.route import Descendants


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """Rows to read from a source. The options are those of `CopySpec`, which says more of each.

    Args:
        source: the source: a URL, a path, ``env:NAME`` or ``file:/PATH``.
        table: the table to read; not needed if the source points to the rows themselves.
        query: a query to read instead of a table.
        where: a condition in SQL.
        columns: the columns to read; all by default.
        exclude_columns: columns to leave out.
        set: columns that the source computes, each as ``COLUMN=SQL``.
        mask: columns that the source masks, each as ``COLUMN=MASK``.
        descendants: whether to read the rows of tables that inherit from the table.
        show_values: whether messages show values of rows.

    Raises:
        UsageError: an option is invalid, or options are incompatible.
    """

    source: str = field(repr=False)
    table: str | None = None
    query: str | None = None
    where: str | None = None
    columns: Sequence[str] | None = None
    exclude_columns: Sequence[str] | None = None
    set: Sequence[str] | None = None
    mask: Sequence[str] | None = None
    descendants: Descendants | None = None
    show_values: ShowValues | None = None

    def __post_init__(self) -> None:
        self.as_copy("env:TARGET")

    def as_copy(self, target: str) -> CopySpec:
        """Return a copy of these rows in one partition, read as they are then.

        Args:
            target: the connection to the target.
        """
        options = {item.name: getattr(self, item.name) for item in fields(self)}
        return CopySpec(
            target=target,
            strategy="whole",
            snapshot="none",
            degree=1,
            **{name: value for name, value in options.items() if value is not None},
        )
