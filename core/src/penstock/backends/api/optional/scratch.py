"""A place in a target for a table that is loaded to measure speed, then dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.model.tables import TableRef

PREFIX = "penstock_tune_"
"""The prefix of the names of all such places, which identifies leftovers."""


class Scratch(Protocol):
    """A place for measurements and its content: a schema, or a folder next to the target.

    A folder has a target of its own. A lock that this object holds shows that its creator is alive.
    """

    name: str
    """The name for a control schema that holds nothing else."""
    place: str
    """For people."""
    target: str | None
    """The URL of a separate target; None if the place is within the target."""
    table: TableRef | None
    """The scratch table; None if the separate target uses the original's name."""
    removal: str
    """Tells a person how to remove it by hand."""
    remarks: tuple[str, ...]
    """Describes how the scratch table differs from the original."""

    def sweep(self) -> tuple[str, ...]:
        """Drop the remains of dead processes; return their names.

        Raises:
            TransientError: a process is still active there, or the server cannot be reached.
        """
        ...

    def begin(self) -> None:
        """Create the place.

        Raises:
            PermanentError: it cannot be created.
        """
        ...

    def make_table(self) -> None:
        """Create the scratch table anew, and empty, like the table that it stands for.

        Raises:
            PermanentError: it cannot be created.
        """
        ...

    def drop(self) -> None:
        """Drop the place and its content; does nothing if it was not created.

        Raises:
            TransientError: a process is still active there, or the server cannot be reached.
        """
        ...

    def close(self) -> None:
        """Disconnect. May be called twice."""
        ...


class WithScratch(Protocol):
    """A backend whose target has the capability `scratch`."""

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        """Connect, and check the requirements. Changes nothing yet.

        Args:
            url: the URL, as the user wrote it.
            like: the table that `make_table` imitates; None if it will not be called.

        Raises:
            PlanningError: a privilege is missing (names it, and the GRANT that would help), or the
                table cannot be imitated. If the target creates missing tables, it need not exist.
            TransientError: the server cannot be reached.
        """
        ...
