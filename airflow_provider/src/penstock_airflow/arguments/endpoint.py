"""The source or target of a copy as arguments of operators: a connection or a URL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock import Place, UsageError, holds_secret, is_reference, place_of, with_parameters
from penstock_airflow.hooks.aws import s3_parameters
from penstock_airflow.hooks.penstock import connection_url
from penstock_airflow.sdk import AirflowNotFoundException, BaseHook, get_async_connection

SOURCE_ARGUMENTS = ("source_conn_id", "source", "source_aws_conn_id")
TARGET_ARGUMENTS = ("target_conn_id", "target", "target_aws_conn_id")
ARGUMENTS = (*SOURCE_ARGUMENTS, *TARGET_ARGUMENTS)
_KEYED_SCHEME = "s3"
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
# Replaces a template while a DAG is parsed.
_PLACEHOLDER = "x"


def endpoint_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connections and URLs among the arguments of a call, from its `locals()`."""
    return {name: arguments[name] for name in ARGUMENTS if name in arguments}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A source or target.

    Args:
        side: `source` or `target`, the prefix of its arguments.
        conn_id: an Airflow connection to a database.
        url: a URL instead of a connection. While a DAG is parsed it may hold templates. It never
            holds secrets, because Airflow shows the arguments of tasks.
        aws_conn_id: an Airflow connection with the keys, endpoint and region for an `s3://` URL.
    """

    side: str
    conn_id: str | None
    url: str | None
    aws_conn_id: str | None

    @classmethod
    def of(cls, side: str, holder: Any) -> Endpoint:
        """Return the source or target from the attributes of an operator or trigger.

        Args:
            side: `source` or `target`.
            holder: an operator or trigger.
        """
        return cls(
            side,
            getattr(holder, f"{side}_conn_id"),
            getattr(holder, side),
            getattr(holder, f"{side}_aws_conn_id"),
        )

    def check(self) -> None:
        """Find mistakes that do not depend on templates.

        Raises:
            UsageError: an argument is wrong; the message names it.
        """
        side = self.side
        if (self.conn_id is None) == (self.url is None):
            count = "neither" if self.url is None else "both"
            raise UsageError(
                f"{side}_conn_id, {side}: found {count}; pass either {side}_conn_id or {side}"
            )
        if self.conn_id is not None:
            if self.aws_conn_id is not None:
                raise UsageError(
                    f"{side}_aws_conn_id goes with {side}, a URL that begins with "
                    f"{_KEYED_SCHEME}://; found {side}_conn_id"
                )
            return
        if self._sample is None:
            return
        place = self.place
        assert place is not None
        if self.aws_conn_id is not None and place.scheme != _KEYED_SCHEME:
            raise UsageError(
                f"{side}_aws_conn_id goes with {side}, a URL that begins with {_KEYED_SCHEME}://; "
                f"found {place.scheme}://"
            )
        if self._resolve(holds_secret):
            keyed = place.scheme == _KEYED_SCHEME
            kind = "aws" if keyed else f"{place.scheme}, to {place.host}"
            argument = f"{side}_aws_conn_id" if keyed else f"{side}_conn_id"
            instead = f"beside {side}" if keyed else f"instead of {side}"
            raise UsageError(
                f"{side}: expected a URL without secrets, because Airflow shows the arguments of "
                f"tasks: add a connection of type {kind}, and pass its id as {argument} {instead}"
            )

    @property
    def place(self) -> Place | None:
        """The place that the URL names; None for a connection, or while the URL is unknown.

        Connections are not looked up here.

        Raises:
            UsageError: the URL cannot be resolved.
        """
        place: Place | None = None if self._sample is None else self._resolve(place_of)
        return place

    @property
    def located(self) -> bool | None:
        """Whether the URL names the rows themselves, so that no table is named; None if unknown."""
        if self.conn_id is not None:
            return False
        return None if self.place is None else self.place.located

    @property
    def sample(self) -> str:
        """A placeholder for the URL while a DAG is parsed."""
        return self._sample or f"env:{self.side.upper()}"

    @property
    def name(self) -> str:
        """The endpoint's name in a DAG, without the parts that templates fill in."""
        if self.conn_id is not None:
            return self.conn_id
        if not isinstance(self.url, str):
            return self.side
        first, *_ = _EXPRESSION.split(self.url.partition("?")[0])
        static_part = first if first == self.url.partition("?")[0] else first.rpartition("/")[0]
        static_part = static_part.rstrip("/")
        return self.side if static_part.endswith(":") or not static_part else static_part

    def connect(self) -> str:
        """Return the URL with its secrets, from the Airflow connection if there is one.

        Raises:
            UsageError: the connection does not exist, or Penstock cannot use it.
        """
        conn_id = self.conn_id or self.aws_conn_id
        with self._missing_is_usage():
            connection = None if conn_id is None else BaseHook.get_connection(conn_id)
        return self._url_from(connection)

    async def connect_async(self) -> str:
        """Return the URL as `connect` does, in a triggerer."""
        conn_id = self.conn_id or self.aws_conn_id
        with self._missing_is_usage():
            connection = None if conn_id is None else await get_async_connection(conn_id)
        # In a thread, because masking secrets and assuming a role are blocking calls.
        return await asyncio.to_thread(self._url_from, connection)

    @contextmanager
    def _missing_is_usage(self) -> Iterator[None]:
        """Report a connection that does not exist, which a retry would not find either."""
        try:
            yield
        except AirflowNotFoundException:
            name = f"{self.side}_conn_id" if self.conn_id else f"{self.side}_aws_conn_id"
            raise UsageError(
                f"{name}: Airflow has no connection {self.conn_id or self.aws_conn_id!r}, or its "
                "secrets backend does not answer: add it under Admin, Connections, and clear this "
                "task"
            ) from None

    def _url_from(self, connection: Any) -> str:
        if self.conn_id is not None:
            return connection_url(connection, self.conn_id)
        self.check()  # again, now that templates are rendered
        assert self.url is not None
        if self.aws_conn_id is None:
            return self.url
        return with_parameters(self.url, s3_parameters(connection, self.aws_conn_id))

    @property
    def _sample(self) -> str | None:
        """The URL with placeholders for templates; None if only a task can know it."""
        # Another task's output is not a string, and a task has an environment and files of its own.
        if not isinstance(self.url, str) or is_reference(self.url):
            return None
        scheme = self.url.partition("://")[0]
        return None if _EXPRESSION.search(scheme) else _EXPRESSION.sub(_PLACEHOLDER, self.url)

    def _resolve(self, question: Any) -> Any:
        try:
            return question(self._sample)
        except UsageError as error:
            message = error.message.removeprefix("connection: ")
            raise UsageError(f"{self.side}: {message}") from None
