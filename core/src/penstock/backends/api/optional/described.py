"""Catalogs that are asked about many relations, and ask the server about all of them at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.model.table_model import TableDefinition
from penstock.model.tables import Relation, TableRef


@runtime_checkable
class DescribesMany(Protocol):
    """A `SourceCatalog` or `TargetCatalog` whose facts about many relations cost what those about
    one cost."""

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        """While it lasts, the first question about one of these relations is put to the server for
        all of them, and each answer is kept.

        For planning only: later changes are not seen. Adopting a snapshot forgets what was read
        without it.

        Parameters:
            relations: need not exist. What is wrong with one is raised where that one is asked for.
        """
        ...


@runtime_checkable
class LooksAhead(DescribesMany, Protocol):
    """A catalog that can ask in few round trips what planning will ask it in many."""

    def look_ahead(self, definitions: Collection[bool] = ()) -> None:
        """Within `describing`: ask for the facts that are usually wanted of its relations, and keep
        them. Raises nothing: what is wrong shows when it is asked for.

        Parameters:
            definitions: where tables are made, `partitioning` of the definitions that are wanted.
        """
        ...


@runtime_checkable
class MakesMany(DescribesMany, Protocol):
    """A `TargetCatalog` to which it costs less to see that it can make many tables at once."""

    def expect(self, definitions: Mapping[TableRef, TableDefinition]) -> None:
        """Within `describing`: the definitions that `defined_columns` and `plan_load` will be asked
        about, by the tables to be made. Asks nothing of the server, and raises nothing."""
        ...


def describing(catalog: object, relations: Sequence[Relation]) -> AbstractContextManager[None]:
    """See `DescribesMany`; other catalogs answer as they always do."""
    if isinstance(catalog, DescribesMany):
        return catalog.describing(relations)
    return nullcontext()


def look_ahead(catalog: object, definitions: Collection[bool] = ()) -> None:
    """See `LooksAhead`; other catalogs are asked when something is wanted."""
    if isinstance(catalog, LooksAhead):
        catalog.look_ahead(definitions)
