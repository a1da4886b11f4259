"""Catalogs that describe many relations with a single question to the server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.model.table_model import TableDefinition
from penstock.model.tables import Relation, TableRef


@runtime_checkable
class DescribesMany(Protocol):
    """A catalog whose facts about many relations cost as much as those about one."""

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        """Ask each question about one of these relations for all of them, and keep the answers.

        For planning only: later changes are not visible. Adopting a snapshot drops facts that were
        read without it.

        Args:
            relations: need not exist. An error in one is raised when that one is asked for.
        """
        ...


@runtime_checkable
class Prefetches(DescribesMany, Protocol):
    """A catalog that can ask in few round trips what planning will ask in many."""

    def prefetch(self, definitions: Collection[bool] = ()) -> None:
        """Within `describing`, read and keep the facts that are usually needed.

        Raises nothing: errors are raised when the facts are asked for.

        Args:
            definitions: if tables are created, `partitioning` for their definitions.
        """
        ...


@runtime_checkable
class MakesMany(DescribesMany, Protocol):
    """A `TargetCatalog` that checks many new tables at a lower cost."""

    def expect(self, definitions: Mapping[TableRef, TableDefinition]) -> None:
        """Within `describing`, announce the definitions of new tables.

        `defined_columns` and `plan_load` will ask about them. Asks the server nothing, and raises
        nothing.
        """
        ...


def describing(catalog: object, relations: Sequence[Relation]) -> AbstractContextManager[None]:
    """Describe relations as in `DescribesMany`; other catalogs answer as usual."""
    if isinstance(catalog, DescribesMany):
        return catalog.describing(relations)
    return nullcontext()


def prefetch(catalog: object, definitions: Collection[bool] = ()) -> None:
    """Look ahead as in `Prefetches`; other catalogs are asked when facts are needed."""
    if isinstance(catalog, Prefetches):
        catalog.prefetch(definitions)
