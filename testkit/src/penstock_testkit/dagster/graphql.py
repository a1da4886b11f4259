"""Dagster's GraphQL interface."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class GraphQLError(RuntimeError):
    """The server rejected a request; the message is its answer."""


@dataclass(frozen=True)
class GraphQL:
    """The GraphQL interface of a web server.

    Args:
        url: the server's URL, without ``/graphql``.
    """

    url: str

    def ask(self, text: str, /, **variables: Any) -> dict[str, Any]:
        """Send a query or a mutation, and return the answer's data.

        Raises:
            GraphQLError: the server rejected it.
            URLError: the server does not listen.
        """
        body = json.dumps({"query": text, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        try:
            with urlopen(
                Request(f"{self.url}/graphql", body, headers, method="POST"), timeout=60
            ) as answer:
                reply = json.load(answer)
        except HTTPError as error:
            with error:
                raise GraphQLError(error.read().decode(errors="replace")) from None
        if reply.get("errors"):
            raise GraphQLError(json.dumps(reply["errors"], indent=1))
        data: dict[str, Any] = reply["data"]
        return data

    def one(self, kind: str, text: str, /, **variables: Any) -> dict[str, Any]:
        """Send a query with one field as `ask` does, and return the field.

        Args:
            kind: the field's type on success.
            text: the query.
            **variables: the query's variables.

        Raises:
            GraphQLError: the field has another type, as errors have; the message is the whole
                field.
        """
        (result,) = self.ask(text, **variables).values()
        if result["__typename"] != kind:
            raise GraphQLError(f"expected {kind}, found {json.dumps(result, indent=1)}")
        answer: dict[str, Any] = result
        return answer
