"""The unique keys of a table, and the one by which mode upsert finds its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.errors import PlanningError

if TYPE_CHECKING:
    from penstock.backends.api.facts import LoadRequest


class UniqueKey(Protocol):
    """A unique key. Its text is what messages call it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        ...

    @property
    def primary(self) -> bool: ...

    @property
    def obstacle(self) -> str:
        """The reason why the key cannot identify a row; empty if it can."""
        ...


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A key of columns that are declared with the table."""

    names: tuple[str, ...]
    primary: bool
    obstacle: str = ""

    def __str__(self) -> str:
        return f"{'primary key' if self.primary else 'unique key'} ({', '.join(self.names)})"


K = TypeVar("K", bound=UniqueKey)


def find_key(keys: Sequence[K], columns: Sequence[str]) -> K | None:
    """Return the usable key over exactly these columns, in any order."""
    usable = (key for key in keys if not key.obstacle)
    return next((key for key in usable if set(key.names) == set(columns)), None)


def choose_key(request: LoadRequest, keys: Sequence[K], requirement: str) -> K:
    """Return the key that the user named, the primary key, or the only key.

    Args:
        request: the request for the load.
        keys: all keys of the table, the primary key first.
        requirement: the requirement for the key, for messages; ``{}`` stands for the table.

    Raises:
        PlanningError: there is no key, or several without a primary key, or not all of its columns
            are copied.
    """
    copied = {pair.target for pair in request.pairs}
    names = request.conflict_columns
    existing_keys = "; ".join(map(str, keys)) or "none"
    if names is not None:
        flag = f"--conflict-columns {','.join(names)}"
        key = find_key(keys, names)
        if key is None:
            raise PlanningError(
                f"{flag}: expected exactly the columns of a {requirement.format(request.target)}; "
                f"found {existing_keys}"
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
        f"--mode upsert: expected a {requirement.format(request.target)}, and its columns all "
        f"copied; found {existing_keys}"
    )
