"""The copies in a file of many tables, `penstock.toml`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import dagster as dg

from dagster_penstock.connections import reference
from penstock import (
    BatchSpec,
    CopySpec,
    UsageError,
    as_arguments,
    batch_of_file,
    holds_secret,
)

REFRESH = "dg utils refresh-defs-state"
"""The command that reads the catalogs of components."""


def specs_of_file(
    file: str | os.PathLike[str],
    *,
    tables: Sequence[str] = (),
    source: str | None = None,
    target: str | None = None,
    **options: Any,
) -> list[CopySpec]:
    """Return the copies in a file of many tables, `penstock.toml`, for `penstock_assets`.

        @penstock_assets(specs=specs_of_file("penstock.toml"))
        def shop(context: dg.AssetExecutionContext, penstock: PenstockResource):
            yield from penstock.copy(context)

    This opens no connection. A table is an asset if a section or `tables` names it, because only
    the source knows the tables that match a pattern.

    Args:
        file: the path of the file.
        tables: names of further tables, which match the patterns of sections.
        source: the connection that replaces the file's source: a `dg.EnvVar`, or a URL without a
            password.
        target: the connection that replaces the file's target.
        **options: options that override the file's for all tables, but not those of its sections.

    Raises:
        DagsterInvalidDefinitionError: the file cannot be read or is wrong, or one of its patterns
            matches none of the named tables.
    """
    with definition_errors():
        batch = batch_of_definition(file, {"source": source, "target": target}, options)
        specs = batch.named_tables(tables)
        names = [spec.source_name for spec in specs]
        for section in batch.sections:
            # Sections that leave tables out may match nothing.
            if section.is_name or section.skip:
                continue
            if not any(fnmatchcase(name, section.pattern) for name in names):
                raise UsageError(
                    f"{section.place}: an asset needs the name of its table: give each table a "
                    "section of its own, list the tables that match the pattern in `tables`, or "
                    f"use CopyFileComponent, which has them from {REFRESH}"
                )
    return specs


def batch_of_definition(
    file: str | os.PathLike[str], ends: Mapping[str, str | None], options: Mapping[str, Any]
) -> BatchSpec:
    """Return the tables of a file for definitions, which hold no secrets.

    Args:
        file: the path of the file.
        ends: source and target, in place of the file's; None for the file's.
        options: options that override the file's for all tables, but not those of its sections.

    Raises:
        UsageError: the file cannot be read or is wrong, or a URL in it holds a secret.
    """
    overrides = {end: reference(url) for end, url in ends.items() if url is not None}
    path = os.fspath(file)
    batch = batch_of_file(path, {**options, **overrides})
    for end in ends:
        if end not in overrides and holds_secret(getattr(batch, end)):
            raise UsageError(
                f"{path}: {end}: expected env:NAME or file:/PATH, an environment variable or a "
                "file that holds the whole URL, because a definition must not hold a secret; found "
                "a URL with one"
            )
    return batch


@contextmanager
def definition_errors() -> Iterator[None]:
    """Raise the mistakes of options as Dagster's error for definitions."""
    try:
        yield
    except UsageError as error:
        raise dg.DagsterInvalidDefinitionError(as_arguments(error.message)) from None
