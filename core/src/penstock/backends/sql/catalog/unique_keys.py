"""The unique keys of a table, and the one by which mode upsert finds its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.errors import PlanningError

if TYPE_CHECKING:
    from penstock.backends.api.facts import LoadRequest


class UniqueKey(Protocol):
    """Its text is for people."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns."""
        ...

    @property
    def primary(self) -> bool: ...

    @property
    def obstacle(self) -> str:
        """Why no row can be found by it; empty where one can."""
        ...


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A key of columns that a table is made with."""

    names: tuple[str, ...]
    primary: bool
    obstacle: str = ""

    def __str__(self) -> str:
        return f"{'primary key' if self.primary else 'unique key'} ({', '.join(self.names)})"


K = TypeVar("K", bound=UniqueKey)


def find_key(keys: Sequence[K], columns: Sequence[str]) -> K | None:
    """The usable key over exactly these columns, in any order."""
    usable = (key for key in keys if not key.obstacle)
    return next((key for key in usable if set(key.names) == set(columns)), None)


def choose_key(request: LoadRequest, keys: Sequence[K], wanted: str) -> K:
    """The key that somebody asked for, the primary key, or the only one there is.

    Parameters:
        keys: all of the table, the primary key first.
        wanted: what a key has to be, for messages; ``{}`` stands for the table.

    Raises:
        PlanningError: there is none, or several of which none is the primary key; or its columns
            are not all copied.
    """
    copied = {pair.target for pair in request.pairs}
    asked = request.conflict_columns
    there = "; ".join(map(str, keys)) or "none"
    if asked is not None:
        flag = f"--conflict-columns {','.join(asked)}"
        key = find_key(keys, asked)
        if key is None:
            raise PlanningError(
                f"{flag}: expected exactly the columns of a {wanted.format(request.target)}; "
                f"found {there}"
            )
        missing = [name for name in key.names if name not in copied]
        if missing:
            raise PlanningError(
                f"{flag}: expected columns that are copied; found {', '.join(missing)}, which "
                f"{'is' if len(missing) == 1 else 'are'} not"
            )
        return key
    usable = [key for key in keys if not key.obstacle and copied.issuperset(key.names)]
    if usable and (usable[0].primary or len({frozenset(key.names) for key in usable}) == 1):
        return usable[0]
    if usable:
        raise PlanningError(
            f"--mode upsert: expected a primary key of {request.target}, or --conflict-columns to "
            f"choose one of its unique keys; found {'; '.join(map(str, usable))}"
        )
    raise PlanningError(
        f"--mode upsert: expected a {wanted.format(request.target)}, and its columns all "
        f"copied; found {there}"
    )
