"""A place in a target for a table that is loaded to see how fast that is, and then dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.model.tables import TableRef

PREFIX = "penstock_tune_"
"""Of the names of all such places, by which leftovers are known."""


class Scratch(Protocol):
    """One such place, with all that is in it: a schema of its own, or a folder beside the target
    with a target of its own.

    Whoever has made it is seen to be alive by a lock that this object keeps.
    """

    name: str
    """For a control schema, in which nothing else is."""
    place: str
    """For people."""
    target: str | None
    """The URL of a target of its own; None: it is within the target."""
    table: TableRef | None
    """The scratch table, wherever it comes from; None: in a target of its own it has the name of
    the target's."""
    removal: str
    """What removes it by hand, for people."""
    remarks: tuple[str, ...]
    """How the scratch table differs from the one that it is made like, for people."""

    def sweep(self) -> tuple[str, ...]:
        """Drop what others have left behind that are dead. Returns their names.

        Raises:
            TransientError: somebody is still at work there, or the server cannot be reached.
        """
        ...

    def begin(self) -> None:
        """Make the place.

        Raises:
            PermanentError: it cannot be made.
        """
        ...

    def make_table(self) -> None:
        """Make the scratch table anew, and empty, like the one that it stands for.

        Raises:
            PermanentError: it cannot be made.
        """
        ...

    def drop(self) -> None:
        """Drop all of it; nothing where it was not made.

        Raises:
            TransientError: somebody is still at work there, or the server cannot be reached.
        """
        ...

    def close(self) -> None:
        """Disconnect. May be called twice."""
        ...


class WithScratch(Protocol):
    """A backend whose target has the capability `scratch`."""

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        """Connect, and check what it takes. Changes nothing yet.

        Parameters:
            like: the table that `make_table` makes others like; None: it is not asked to.

        Raises:
            PlanningError: a privilege is missing (which, and the GRANT that would do), or the
                table is none that another one can be made like. Where the target makes missing
                tables, it need not be there.
            TransientError: the server cannot be reached.
        """
        ...
