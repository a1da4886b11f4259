"""Source and target of a copy: resolved URLs, their backends and secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, quote, urlencode

from penstock.backends.api.backend import Backend
from penstock.backends.api.capabilities import Capabilities
from penstock.backends.api.optional.texts import GivesTypes, TakesTypes
from penstock.backends.api.registry import find_backend
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.shared.tokens import TakesTokens
from penstock.engine.control_link import ControlLink
from penstock.engine.logins.parameters import CLOUDS, check_known, split_parameters
from penstock.engine.opening import PendingSession, SnapshotOpener
from penstock.engine.pulses import PulseEnd
from penstock.engine.value_display import isolate_display
from penstock.errors import PlanningError, UsageError
from penstock.model.awaited import during
from penstock.model.plans import PartitionPlan
from penstock.model.tables import Place, TableRef
from penstock.planning.asking.search_path import with_schemas
from penstock.planning.request import PlanRequest
from penstock.planning.support import check_supported
from penstock.spec.copy_spec import CopySpec
from penstock.spec.references import is_reference, resolve_reference
from penstock.spec.worker_spec import Patience
from penstock.workers import early_fork
from penstock.workers.degree import streams_of
from penstock.workers.environment import is_inherited, worker_environment
from penstock.workers.process import Nursery

if TYPE_CHECKING:
    from penstock.backends.api.optional.pulse import LagGauge, WithLag, WithPulse
    from penstock.backends.api.optional.scratch import Scratch, WithScratch

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
    """Values that no child process's environment may contain."""

    def __repr__(self) -> str:
        return f"Connections({self.source_reference}, {self.target_reference})"

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of both backends."""
        return Capabilities(
            self.source_backend.source_capabilities, self.target_backend.target_capabilities
        )

    def check_table_names(self, spec: CopySpec) -> None:
        """Check that tables are named only where they are needed.

        Raises:
            UsageError: a table name is missing, or is specified where none is allowed.
        """
        spec.check_table_names(
            source=self.source_backend.located, target=self.target_backend.located
        )

    def check_supported(self, spec: CopySpec) -> None:
        """See `support.check_supported`. Planning checks too, but only after taking a snapshot."""
        check_supported(
            spec, self.source_backend.source_capabilities, self.target_backend.target_capabilities
        )
        for column, mask in spec.masks.items():
            if mask.variable and is_inherited(mask.variable, self._inherited):
                raise UsageError(
                    f"--mask {column}={mask}: worker processes inherit variables with this name, "
                    "so the key could be seen there; use another name, such as MASKING_KEY"
                )

    @property
    def _inherited(self) -> Sequence[str]:
        """Patterns of the variables that workers get, in addition to those that all get."""
        return (*self.source_backend.environment, *self.target_backend.environment)

    def with_schemas(
        self, spec: CopySpec, source: SourceCatalog, target: TargetCatalog
    ) -> tuple[CopySpec, tuple[str, ...]]:
        """Return a spec whose tables have schemas, and the reasons for these.

        See `search_path.with_schemas`.

        Args:
            spec: the options of the copy.
            source: the source's catalog, which has its search path.
            target: the target's catalog.
        """
        return with_schemas(spec, source, None if self.target_backend.located else target)

    def with_table_types(self, spec: CopySpec, target: TargetCatalog) -> Connections:
        """Return connections for a new run, whose source has the types of the target's table.

        They are the same ones if the source has types of its own, or has to find them.

        Args:
            spec: the options of the run.
            target: the target's catalog.

        Raises:
            PenstockError: the source cannot be read.
        """
        backend = self.source_backend
        if not isinstance(backend, TakesTypes) or not isinstance(target, GivesTypes):
            return self
        request = PlanRequest.of(spec, streams_of(spec.degree), "", self.capabilities)
        if not request.takes_whole_rows(spec) or not request.loads_table_as_it_is:
            return self
        table: TableRef | None = spec.target_ref
        if table is not None and not table.schema:
            table = target.find(table.name)
        try:
            columns = () if table is None else target.columns(table)
        except PlanningError:
            return self  # there is none
        if not columns:
            return self
        names = [column.name for column in columns]
        types = list(zip(names, target.text_types(columns), strict=True))
        url = backend.with_types(self.source_url, types, by_position=spec.map == "position")
        return replace(self, source_url=url)

    def with_planned_types(self, plan: PartitionPlan) -> Connections:
        """Return connections for a stored run, whose source has the types of the plan."""
        backend = self.source_backend
        if not plan.given_types or not isinstance(backend, TakesTypes):
            return self
        return replace(self, source_url=backend.with_given(self.source_url, plan.given_types))

    def open_source(self) -> SourceCatalog:
        """Open a session in the source; the caller closes it."""
        with during("connecting to the source"):
            return self.source_backend.source(self.source_url)

    def pending_source(self, *, ahead: bool) -> PendingSession[SourceCatalog]:
        """Return the source's session, which may open ahead of time.

        A database within this process is never opened on two threads at once.
        """
        server = self.source_backend.place(self.source_url).port is not None
        return PendingSession(self.open_source, ahead=ahead and server)

    def snapshot_opener(self, *, ahead: bool) -> SnapshotOpener:
        """Return a holder that takes snapshots of the source; see `SnapshotOpener`."""
        return SnapshotOpener(self.source_backend, self.source_url, ahead=ahead)

    def open_target(self, control_schema: str) -> TargetCatalog:
        """Open a session in the target; the caller closes it."""
        with during("connecting to the target"):
            return self.target_backend.target(self.target_url, control_schema)

    def nursery(self) -> Nursery:
        """Return a nursery that starts workers for these ends."""
        return Nursery(*self._of_workers())

    def fork_early(self) -> None:
        """Fork what `nursery` needs from this process, if that is safe: see `early_fork`."""
        early_fork.fork_early(*self._of_workers())

    def _of_workers(self) -> tuple[Mapping[str, str], Sequence[str]]:
        """Return the environment of workers, and the backends that they import."""
        environment = worker_environment(
            os.environ,
            self._inherited,
            self.secrets,
        )
        return environment, (self.source_reference, self.target_reference)

    def pulses(self) -> dict[str, PulseEnd]:
        """Return, by side, the servers whose sessions can be sampled."""
        capabilities = self.capabilities
        ends = {
            "source": (self.source_backend, self.source_url, capabilities.source.shows_waits),
            "target": (self.target_backend, self.target_url, capabilities.target.shows_waits),
        }
        pulse_ends = {}
        for side, (backend, url, shows) in ends.items():
            if shows:
                with_pulse = cast("WithPulse", backend)
                opened = partial(with_pulse.pulse, url, side)
                pulse_ends[side] = PulseEnd(opened, with_pulse.wait_kind)
        return pulse_ends

    def lag_gauge(self) -> LagGauge:
        """Open a gauge of the source's lag.

        Raises:
            UsageError: the source has no concept of lag.
            PlanningError: this user may not see the lag.
            TransientError: the source cannot be reached.
        """
        source = self.capabilities.source
        if "max_lag" not in source.options:
            raise UsageError(f"{source.system} as a source does not support --max-lag")
        return cast("WithLag", self.source_backend).lag_gauge(self.source_url)

    def open_scratch(self, like: TableRef | None) -> Scratch:
        """See `WithScratch.scratch`.

        Raises:
            UsageError: the target has no place for scratch tables.
        """
        if not self.capabilities.target.scratch:
            raise UsageError(
                f"{self.capabilities.target.system} as a target does not support penstock tune: "
                "it cannot have a scratch table"
            )
        return cast("WithScratch", self.target_backend).scratch(self.target_url, like)

    def wait_kind(self, side: str, wait: str) -> str:
        """Return the kind of a server's wait; see `penstock.backends.api.optional.pulse`."""
        backend = self.source_backend if side == "source" else self.target_backend
        return cast("WithPulse", backend).wait_kind(wait)

    def link(
        self,
        target: TargetCatalog,
        control_schema: str,
        patience: Patience | None = None,
        batch_id: str = "",
    ) -> ControlLink:
        """Return a link to the target's control store, which reconnects.

        Args:
            target: an open catalog.
            control_schema: the schema of the control tables.
            patience: how long to wait for sessions that block; None for the default.
            batch_id: see `ControlStore.batch_id`.
        """
        return ControlLink(
            target,
            lambda: self.open_target(control_schema),
            patience or Patience(),
            batch_id,
        )


def resolve(reference: str, flag: str) -> tuple[str, Backend, str, tuple[str, ...]]:
    """Return the resolved URL, its backend, the backend's ``module:attribute``, and its secrets.

    Args:
        reference: a URL, a path, ``env:NAME`` or ``file:/PATH``.
        flag: the option, for the message.

    Raises:
        UsageError: the reference cannot be resolved, or no backend has the URL's scheme.
    """
    resolved = resolve_reference(reference, os.environ, flag)
    plain, parameters = split_parameters(resolved, flag)
    backend, name = find_backend(plain, flag)
    if not parameters.auth:
        if isinstance(backend, TakesTokens):
            check_known(plain, flag)
        url = backend.resolve(plain, os.environ, flag)
    else:
        from penstock.engine.logins import tokens  # noqa: PLC0415 - seldom

        plain = tokens.with_tokens(plain, parameters.auth, backend, flag)
        url = backend.resolve(plain, os.environ, flag)
        tokens.check_private(url, parameters.auth, backend, os.environ, flag)
    if parameters.ssh:
        from penstock.engine.logins.tunnels import through_tunnel  # noqa: PLC0415 - seldom

        scheme = plain.partition("://")[0]
        url = through_tunnel(url, parameters.ssh, backend, scheme, flag)
    return url, backend, name, (resolved, url, *backend.secrets(url))


def place_of(reference: str) -> Place:
    """Return where a connection leads, without its secrets.

    Raises:
        UsageError: the reference cannot be resolved, or no backend has the URL's scheme.
    """
    url, _ = split_parameters(resolve_reference(reference, os.environ, "connection"), "connection")
    backend, _ = find_backend(url, "connection")
    return replace(backend.place(url), located=backend.located, kinds=backend.kinds)


def holds_secret(reference: str) -> bool:
    """Whether a connection contains a secret as written; a reference to one does not.

    Raises:
        UsageError: the URL is malformed, or no backend has its scheme.
    """
    if is_reference(reference):
        return False
    url, _ = split_parameters(resolve_reference(reference, {}, "connection"), "connection")
    backend, _ = find_backend(url, "connection")
    return bool(backend.secrets(backend.resolve(url, {}, "connection")))


def added_secrets(reference: str, environ: Mapping[str, str]) -> list[str]:
    """Say whose secrets become the password of a database's URL: variables, or the user's files.

    Args:
        reference: a URL, or a reference, which is not resolved.
        environ: the environment.

    Raises:
        UsageError: as `resolve` raises it.
    """
    if is_reference(reference):
        return []
    url, parameters = split_parameters(
        resolve_reference(reference, environ, "connection"), "connection"
    )
    if parameters.auth:
        cloud = parameters.auth in CLOUDS
        return ["a token of yours" if cloud else "what a command of its choice prints"]
    backend, _ = find_backend(url, "connection")
    if backend.located:
        return []  # storage is sent signatures instead of keys
    secrets = set(backend.secrets(backend.resolve(url, environ, "connection")))
    names = [name for name, value in environ.items() if value and value in secrets]
    others = {name: value for name, value in environ.items() if name not in names}
    sent = set(secrets)
    with suppress(UsageError):  # a password is missing without the variable
        sent -= set(backend.secrets(backend.resolve(url, others, "connection")))
    if found := sorted(name for name in names if environ[name] in sent):
        return [f"the password in {name}" for name in found]
    written = backend.secrets(backend.resolve(url, {}, "connection"))
    return ["a password in a file of yours"] if secrets - set(written) else []


def with_parameters(reference: str, parameters: Mapping[str, str | None]) -> str:
    """Return the URL of a connection with parameters added; existing ones stay unchanged.

    Args:
        reference: the connection, as a URL or a reference.
        parameters: values by name; None if unknown.

    Raises:
        UsageError: the reference cannot be resolved.
    """
    url = resolve_reference(reference, os.environ, "connection")
    existing = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    added = {name: value for name, value in parameters.items() if value and name not in existing}
    if not added:
        return url
    # In a list of URLs, the parameters of one apply to all.
    has_parameters = "?" in _NEXT_URL.split(url)[-1]
    return f"{url}{'&' if has_parameters else '?'}{urlencode(added, quote_via=quote)}"


@isolate_display
def check_request(spec: CopySpec) -> None:
    """Check that both ends support the request, without connecting.

    References are not resolved.

    Raises:
        UsageError: an end does not support an option, and the message says what it does support;
            mode replace has no key to delete by; or no backend has the URL's scheme.
    """
    source, target = (_written_backend(reference) for reference in (spec.source, spec.target))
    check_supported(
        spec,
        None if source is None else source.source_capabilities,
        None if target is None else target.target_capabilities,
    )


def check_source(source: str) -> None:
    """Connect to a source, and disconnect. Nothing is read but what a session asks for itself.

    Args:
        source: the connection.

    Raises:
        UsageError: the connection cannot be resolved.
        PermanentError: the server rejects it.
        TransientError: the server cannot be reached.
    """
    url, backend, *_ = resolve(source, "--source")
    with during("connecting to the source"):
        backend.source(url).close()


def _written_backend(reference: str) -> Backend | None:
    if is_reference(reference):
        return None
    backend, _ = find_backend(resolve_reference(reference, {}, "connection"), "connection")
    return backend


def connect(source: str, target: str) -> Connections:
    """Resolve both ends of a copy.

    Raises:
        UsageError: as `resolve` raises it.
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
