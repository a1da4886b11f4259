"""Source and target of a copy before it runs: their places, their names, and S3 keys."""

from __future__ import annotations

import re
from dataclasses import replace
from keyword import kwlist
from typing import Any

import dagster as dg

from penstock import (
    CopySpec,
    Place,
    TableRef,
    UsageError,
    check_request,
    holds_secret,
    is_reference,
    place_of,
    with_parameters,
)

try:
    from dagster._core.definitions.utils import DISALLOWED_NAMES
except ImportError:
    DISALLOWED_NAMES = {*kwlist}  # not part of Dagster's public API

_INVALID_IN_KEYS = re.compile(r"[^A-Za-z0-9_.-]+")
_S3 = "s3"
REFUSED = "refused:password"
"""Stands for a connection that was written with its password."""
# Parameters of a URL by the fields of `dagster_aws.s3.S3Resource`.
S3_FIELDS = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "endpoint": "endpoint_url",
    "region": "region_name",
    "profile": "profile_name",
}


def reference(connection: str) -> str:
    """Return a connection as the core takes it: a `dg.EnvVar` becomes ``env:NAME``."""
    if isinstance(connection, dg.EnvVar):
        return f"env:{connection.env_var_name}"
    return connection


def has_password(connection: str) -> bool:
    """Whether a connection holds a secret as written; False if it is malformed."""
    try:
        return holds_secret(connection)
    except UsageError:
        return False


def check_not_refused(side: str, connection: str | None) -> None:
    """Check that a component's file, which will be committed, has no password.

    Args:
        side: `source` or `target`, for the message.
        connection: the connection; `REFUSED` if it had a password.

    Raises:
        UsageError: it had.
    """
    if connection == REFUSED:
        raise UsageError(
            f"{side}: expected a URL without a password, because this file will be committed: put "
            'the URL into an environment variable such as PG_SRC, and write "{{ env.PG_SRC }}"'
        )


def check_ends(spec: CopySpec) -> None:
    """Check options against source and target, as far as these are URLs.

    References are read only when a copy begins.

    Raises:
        PlanningError: the source or the target does not support an option.
        UsageError: an option is wrong.
    """
    spec.check_table_names(source=located(spec.source), target=located(spec.target))
    check_request(spec)


def known_place(connection: str) -> Place | None:
    """Return the place that a URL names; None for a reference, which only a step reads.

    Raises:
        UsageError: the URL cannot be resolved.
    """
    if isinstance(connection, dg.EnvVar) or is_reference(connection):
        return None
    return place_of(connection)


def located(connection: str) -> bool | None:
    """Whether a URL leads to the rows themselves, so that it needs no table; None if unknown."""
    place = known_place(connection)
    return None if place is None else place.located


def asset_path(spec: CopySpec) -> list[str]:
    """Return the path of the asset key: the target's schema, if any, and table, or its folders."""
    target = spec.target_ref
    if located(spec.target) or (spec.table is None and spec.target_table is None):
        return _folders(spec.target)
    return [part for part in (target.schema, target.name) if part]


def source_path(spec: CopySpec) -> list[str]:
    """Return the path of the source's asset key: its reference or database, schema and table.

    The prefix distinguishes it from a table with the same name in the target.
    """
    place = known_place(spec.source)
    if _reads_files(spec):
        path = _folders(spec.source)
        if path[0] in DISALLOWED_NAMES and len(path) == 1:
            return [(place and place.host) or "files", *path]
        return path
    prefix = _folders(spec.source) if place is None else [place.database]
    if spec.table is None:
        return [*prefix, "query_of", *asset_path(spec)]
    table = spec.table_ref
    # A name that Dagster would reject must not prevent copying the table.
    return [_INVALID_IN_KEYS.sub("_", part) for part in (*prefix, table.schema, table.name) if part]


def location_metadata(place: Place, table: TableRef | None) -> dict[str, str]:
    """Return the metadata that say where a table or its files are, without secrets.

    Args:
        place: where the connection leads.
        table: the table; None for a query, whose rows are nowhere, and for files.
    """
    found = {"dagster/storage_kind": place.kinds[-1]} if place.kinds else {}
    if place.located:
        return {**found, "dagster/uri": place.uri(TableRef("", ""))}
    if table is None:
        return found
    return {**found, "dagster/uri": place.uri(table), "dagster/table_name": str(table)}


def target_ref(spec: CopySpec) -> TableRef:
    """Return the target table; for files, their folder within its parents."""
    return _folder_ref(asset_path(spec))


def source_ref(spec: CopySpec) -> Any:
    """Return the source table or query; for files, their folder within its parents."""
    return _folder_ref(_folders(spec.source)) if _reads_files(spec) else spec.relation


def target_name(spec: CopySpec) -> str:
    """Return the target's name, as Dagster shows it."""
    place = known_place(spec.target)
    if place is not None and place.located:
        return place.uri(spec.target_ref)
    return str(target_ref(spec))


def source_name(spec: CopySpec) -> str:
    """Return the source's name, as Dagster shows it; a URL is without parameters."""
    return spec.source_name.partition("?")[0] if _reads_files(spec) else spec.source_name


def with_s3_keys(spec: CopySpec, s3: Any) -> CopySpec:
    """Return the copy with keys added to its S3 URLs. The result holds secrets.

    Args:
        spec: the copy.
        s3: an object with the fields of `dagster_aws.s3.S3Resource`; None if the machine that runs
            the step finds the keys.

    Raises:
        UsageError: the resource does not sign its requests.
    """
    if s3 is None:
        return spec
    if getattr(s3, "use_unsigned_session", False):
        raise UsageError(
            "s3: expected a resource with keys or a profile, found use_unsigned_session, which "
            "Penstock does not support"
        )
    parameters = {name: getattr(s3, field, None) for name, field in S3_FIELDS.items()}

    def add_keys(url: str) -> str:
        return with_parameters(url, parameters) if place_of(url).scheme == _S3 else url

    return replace(spec, source=add_keys(spec.source), target=add_keys(spec.target))


def _reads_files(spec: CopySpec) -> bool:
    return spec.table is None and spec.query is None


def _folders(connection: str) -> list[str]:
    """Return the folders of a URL's path as parts of an asset key; for a reference, its name."""
    place = known_place(connection)
    if place is None:
        name = str(connection).removeprefix("env:").rpartition("/")[2]  # file:/run/secrets/name
        return [_INVALID_IN_KEYS.sub("_", name).lower()]
    # The key of a relative path does not depend on the working directory.
    path = place.database if "://" in connection else connection
    parts = [part for part in path.split("/") if part.strip(".")] or [place.host or "files"]
    # Dagster turns the parts into Python names.
    return [_INVALID_IN_KEYS.sub("_", part) for part in parts]


def _folder_ref(path: list[str]) -> TableRef:
    return TableRef("/".join(path[:-1]), path[-1])
