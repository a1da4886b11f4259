"""Source and target of a copy before it runs: their places, names and S3 keys."""

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
    place_of,
    with_parameters,
)

try:
    from dagster._core.definitions.utils import DISALLOWED_NAMES
except ImportError:
    DISALLOWED_NAMES = {*kwlist}  # not part of Dagster's public API

_NOT_FOR_KEYS = re.compile(r"[^A-Za-z0-9_.-]+")


def known_place(connection: str) -> Place | None:
    """Return the place that a URL names; None for an environment variable, which only a step reads.

    Raises:
        UsageError: the URL cannot be resolved.
    """
    if isinstance(connection, dg.EnvVar) or connection.startswith("env:"):
        return None
    return place_of(connection)


def located(connection: str) -> bool | None:
    """Whether a URL leads to the rows themselves, so that no table is named; None if unknown."""
    found = known_place(connection)
    return None if found is None else found.located


def key_of(spec: CopySpec) -> list[str]:
    """Return the asset key: the target's schema, if named, and table, or the folder's path."""
    target = spec.target_ref
    if located(spec.target) or (spec.table is None and spec.target_table is None):
        return _path(spec.target)
    return [part for part in (target.schema, target.name) if part]


def source_path(spec: CopySpec) -> list[str]:
    """Return the asset key of the source: the name of its variable or database, schema and table.

    The prefix distinguishes it from a table with the same name in the target.
    """
    where = known_place(spec.source)
    if _reads_files(spec):
        path = _path(spec.source)
        if path[0] in DISALLOWED_NAMES and len(path) == 1:
            return [(where and where.host) or "files", *path]
        return path
    prefix = _path(spec.source) if where is None else [where.database]
    if spec.table is None:
        return [*prefix, "query_of", *key_of(spec)]
    table = spec.table_ref
    # A name that Dagster would reject must not prevent copying the table.
    return [_NOT_FOR_KEYS.sub("_", part) for part in (*prefix, table.schema, table.name) if part]


def target_ref(spec: CopySpec) -> TableRef:
    """Return the target table; for files, their folder within its parents."""
    return _folder(key_of(spec))


def source_ref(spec: CopySpec) -> Any:
    """Return the source table or query; for files, their folder."""
    return _folder(_path(spec.source)) if _reads_files(spec) else spec.relation


def target_name(spec: CopySpec) -> str:
    """Return the target's name for people."""
    found = known_place(spec.target)
    if found is not None and found.located:
        return found.uri(spec.target_ref)
    return str(target_ref(spec))


def source_name(spec: CopySpec) -> str:
    """Return the source's name for people; a URL is without parameters."""
    return spec.source_name.partition("?")[0] if _reads_files(spec) else spec.source_name


def _reads_files(spec: CopySpec) -> bool:
    return spec.table is None and spec.query is None


def _path(connection: str) -> list[str]:
    """Return the folders of a URL's path as parts of an asset key; for a variable, its name."""
    found = known_place(connection)
    if found is None:
        return [str(connection).removeprefix("env:").lower()]
    # A relative path stays relative, wherever it is used.
    path = found.database if "://" in connection else connection
    parts = [part for part in path.split("/") if part.strip(".")] or [found.host or "files"]
    # Dagster turns the parts into Python names.
    return [_NOT_FOR_KEYS.sub("_", part) for part in parts]


def _folder(path: list[str]) -> TableRef:
    return TableRef("/".join(path[:-1]), path[-1])


_S3 = "s3"
# Parameters of a URL by the fields of `dagster_aws.s3.S3Resource`.
FIELDS = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "endpoint": "endpoint_url",
    "region": "region_name",
    "profile": "profile_name",
}


def with_keys(spec: CopySpec, s3: Any) -> CopySpec:
    """Return the copy with keys added to its ends on S3. The result holds secrets.

    Parameters:
        s3: an object with the fields of `dagster_aws.s3.S3Resource`; None if the machine that runs
            the step finds the keys.

    Raises:
        UsageError: the resource does not sign its requests.
    """
    if s3 is None:
        return spec
    if getattr(s3, "use_unsigned_session", False):
        raise UsageError(
            "s3: expected a resource with keys, or with a profile; found "
            "use_unsigned_session, which Penstock does not support"
        )
    parameters = {name: getattr(s3, field, None) for name, field in FIELDS.items()}

    def add_keys(url: str) -> str:
        return with_parameters(url, parameters) if place_of(url).scheme == _S3 else url

    return replace(spec, source=add_keys(spec.source), target=add_keys(spec.target))


def check_ends(spec: CopySpec) -> None:
    """Find mistakes in ends that are URLs; environment variables are resolved when a copy begins.

    Raises:
        PlanningError: an end does not support the option in the message.
        UsageError: the option in the message, named as on the command line, is wrong.
    """
    spec.check_table_names(source=located(spec.source), target=located(spec.target))
    check_request(spec)


def reference(connection: str) -> str:
    """Return a connection for the core; environment variables are resolved when a copy begins."""
    if isinstance(connection, dg.EnvVar):
        return f"env:{connection.env_var_name}"
    return connection
