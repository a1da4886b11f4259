"""Both ends of a copy: found by their URLs, resolved, with the secrets known."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, urlencode

from penstock.backends.api.backend import Backend
from penstock.backends.api.registry import find_backend
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.model.tables import Place
from penstock.planning.search_path import with_schemas
from penstock.run.control_link import ControlLink
from penstock.spec.copy_spec import CopySpec
from penstock.spec.references import resolve_reference
from penstock.spec.worker_spec import Patience
from penstock.workers.process import Nursery
from penstock.workers.supervisor import worker_environment

_NEXT_URL = re.compile(r",(?=[a-z][a-z0-9+.-]*://)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Connections:
    """Both ends of a copy, resolved. Carries secrets."""

    source_url: str
    target_url: str
    source_backend: Backend
    target_backend: Backend
    source_reference: str
    target_reference: str
    secrets: tuple[str, ...]
    """What no child's environment may hold."""

    def __repr__(self) -> str:
        return f"Connections({self.source_reference}, {self.target_reference})"

    @property
    def formats(self) -> tuple[str, ...]:
        """The stream formats that both ends speak, best first for the source."""
        return tuple(
            name for name in self.source_backend.formats if name in self.target_backend.formats
        )

    def check_named(self, spec: CopySpec) -> None:
        """
        Raises:
            UsageError: a table is to be named, and is not; or is not to be, and is.
        """
        spec.check_named(source=self.source_backend.located, target=self.target_backend.located)

    def with_schemas(
        self, spec: CopySpec, source: SourceCatalog, target: TargetCatalog
    ) -> tuple[CopySpec, tuple[str, ...]]:
        """See `search_path.with_schemas`."""
        return with_schemas(spec, source, None if self.target_backend.located else target)

    def open_source(self) -> SourceCatalog:
        return self.source_backend.source(self.source_url)

    def open_target(self, control_schema: str) -> TargetCatalog:
        return self.target_backend.target(self.target_url, control_schema)

    def nursery(self) -> Nursery:
        """Starts workers for these ends."""
        environment = worker_environment(
            os.environ,
            (*self.source_backend.environment, *self.target_backend.environment),
            self.secrets,
        )
        return Nursery(environment, (self.source_reference, self.target_reference))

    def link(
        self, target: TargetCatalog, control_schema: str, patience: Patience | None = None
    ) -> ControlLink:
        """Keeps a connection to the target's control store."""
        return ControlLink(
            target,
            lambda: self.open_target(control_schema),
            patience or Patience(),
        )


def resolve(reference: str, flag: str) -> tuple[str, Backend, str, tuple[str, ...]]:
    """The resolved URL, its backend, that one's ``module:attribute``, and the secrets in it.

    Raises:
        UsageError: the reference leads nowhere, or no backend has the URL's scheme.
    """
    written = resolve_reference(reference, os.environ, flag)
    backend, name = find_backend(written, flag)
    url = backend.resolve(written, os.environ, flag)
    return url, backend, name, (written, url, *backend.secrets(url))


def place_of(reference: str) -> Place:
    """Where a connection leads, without its secrets.

    Raises:
        UsageError: the reference leads nowhere, or no backend has the URL's scheme.
    """
    url = resolve_reference(reference, os.environ, "connection")
    backend, _ = find_backend(url, "connection")
    return replace(backend.place(url), located=backend.located)


def holds_secret(reference: str) -> bool:
    """Whether a connection as it is written has a secret in it, that is not in the environment.

    Raises:
        UsageError: a malformed URL, or no backend has its scheme.
    """
    if reference.startswith("env:"):
        return False
    url = resolve_reference(reference, {}, "connection")
    backend, _ = find_backend(url, "connection")
    return bool(backend.secrets(backend.resolve(url, {}, "connection")))


def with_parameters(reference: str, parameters: Mapping[str, str | None]) -> str:
    """The URL of a connection with parameters added; those that it has stay as they are.

    Parameters:
        parameters: by name; None for what is not known.

    Raises:
        UsageError: the reference leads nowhere.
    """
    url = resolve_reference(reference, os.environ, "connection")
    there = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    added = {name: value for name, value in parameters.items() if value and name not in there}
    if not added:
        return url
    # Where a URL is a list of several, those of one hold for all.
    begun = "?" in _NEXT_URL.split(url)[-1]
    return f"{url}{'&' if begun else '?'}{urlencode(added, quote_via=quote)}"


def connect(source: str, target: str) -> Connections:
    """
    Raises:
        UsageError: see `resolve`.
    """
    source_url, source_backend, source_name, source_secrets = resolve(source, "--source")
    target_url, target_backend, target_name, target_secrets = resolve(target, "--target")
    return Connections(
        source_url,
        target_url,
        source_backend,
        target_backend,
        source_name,
        target_name,
        (*source_secrets, *target_secrets),
    )
