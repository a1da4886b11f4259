"""Source and target as arguments of operators: a connection to a database, or a URL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.connection import get_async_connection
from airflow.providers.common.compat.sdk import BaseHook

from penstock import Place, UsageError, holds_secret, place_of, with_parameters
from penstock_airflow.aws import parameters_of
from penstock_airflow.connections import url_of

SOURCE_ARGUMENTS = ("source_conn_id", "source", "source_aws_conn_id")
TARGET_ARGUMENTS = ("target_conn_id", "target", "target_aws_conn_id")
ARGUMENTS = (*SOURCE_ARGUMENTS, *TARGET_ARGUMENTS)
_WITH_KEYS = "s3"
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
# What stands for a template while a DAG is parsed.
_STAND_IN = "x"


def ends_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The connections and URLs among the arguments of a call: its `locals()`."""
    return {name: arguments[name] for name in ARGUMENTS if name in arguments}


@dataclass(frozen=True, slots=True)
class End:
    """
    Parameters:
        side: `source` or `target`, which its arguments begin with.
        conn_id: an Airflow connection to a database.
        url: instead of a connection; holds templates while a DAG is parsed, and no secrets, since
            the arguments of tasks are shown.
        aws_conn_id: an Airflow connection with the keys, endpoint and region for an `s3://` URL.
    """

    side: str
    conn_id: str | None
    url: str | None
    aws_conn_id: str | None

    @classmethod
    def of(cls, side: str, holder: Any) -> End:
        """The end that an operator, or a trigger, has in its attributes."""
        return cls(
            side,
            getattr(holder, f"{side}_conn_id"),
            getattr(holder, side),
            getattr(holder, f"{side}_aws_conn_id"),
        )

    def check(self) -> None:
        """Find mistakes that do not depend on templates.

        Raises:
            UsageError: names the argument.
        """
        side = self.side
        if (self.conn_id is None) == (self.url is None):
            found = "neither" if self.url is None else "both"
            raise UsageError(f"{side}_conn_id, {side}: expected one of them, found {found}")
        if self.conn_id is not None:
            if self.aws_conn_id is not None:
                raise UsageError(
                    f"{side}_aws_conn_id: expected {side}, a URL that begins with {_WITH_KEYS}://, "
                    f"beside it; found {side}_conn_id"
                )
            return
        if self._sample is None:
            return
        place = self.place
        assert place is not None
        if self.aws_conn_id is not None and place.scheme != _WITH_KEYS:
            raise UsageError(
                f"{side}_aws_conn_id goes with a URL that begins with {_WITH_KEYS}://; found "
                f"{side} with {place.scheme}://"
            )
        if self._asked(holds_secret):
            raise UsageError(
                f"{side}: expected a URL without secrets, since Airflow shows the arguments of "
                f"tasks; found one with a secret: keep it in a connection ({side}_aws_conn_id or "
                f"{side}_conn_id)"
            )

    @property
    def place(self) -> Place | None:
        """Where the URL leads; None for a connection, which is not looked up, or if not known yet.

        Raises:
            UsageError: the URL leads nowhere.
        """
        place: Place | None = None if self._sample is None else self._asked(place_of)
        return place

    @property
    def located(self) -> bool | None:
        """Whether it leads to the rows themselves, so no table is named; None: not known yet."""
        if self.conn_id is not None:
            return False
        return None if self.place is None else self.place.located

    @property
    def sample(self) -> str:
        """A stand-in for its URL while a DAG is parsed."""
        return self._sample or f"env:{self.side.upper()}"

    @property
    def name(self) -> str:
        """Its name in a DAG, without the parts that templates will fill in."""
        if self.conn_id is not None:
            return self.conn_id
        if not isinstance(self.url, str):
            return self.side
        first, *_ = _EXPRESSION.split(self.url.partition("?")[0])
        known = first if first == self.url.partition("?")[0] else first.rpartition("/")[0]
        known = known.rstrip("/")
        return self.side if known.endswith(":") or not known else known

    def connect(self) -> str:
        """Its URL, with secrets. Asks Airflow for the connection.

        Raises:
            UsageError: a connection that Penstock cannot use.
            AirflowNotFoundException: no such connection.
        """
        wanted = self.conn_id or self.aws_conn_id
        return self._with(None if wanted is None else BaseHook.get_connection(wanted))

    async def connect_async(self) -> str:
        """As `connect`, in a triggerer."""
        wanted = self.conn_id or self.aws_conn_id
        connection = None if wanted is None else await get_async_connection(wanted)
        # In a thread: masking secrets and assuming a role are blocking calls.
        return await asyncio.to_thread(self._with, connection)

    def _with(self, connection: Any) -> str:
        if self.conn_id is not None:
            return url_of(connection, self.conn_id)
        self.check()  # now that templates are rendered
        assert self.url is not None
        if self.aws_conn_id is None:
            return self.url
        return with_parameters(self.url, parameters_of(connection, self.aws_conn_id))

    @property
    def _sample(self) -> str | None:
        """The URL, with its templates filled in somehow; None if only a task can know it."""
        # Another task's output is not a string; a task has an environment of its own.
        if not isinstance(self.url, str) or self.url.startswith("env:"):
            return None
        scheme = self.url.partition("://")[0]
        return None if _EXPRESSION.search(scheme) else _EXPRESSION.sub(_STAND_IN, self.url)

    def _asked(self, question: Any) -> Any:
        try:
            return question(self._sample)
        except UsageError as error:
            message = error.message.removeprefix("connection: ")
            raise UsageError(f"{self.side}: {message}") from None
