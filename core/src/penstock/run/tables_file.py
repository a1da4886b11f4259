"""`batch_of_file`: a file of many tables as a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.errors import PenstockError, UsageError
from penstock.run.connections import holds_secret
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.toml_file import VARIABLE, lines_of, read_toml


def batch_of_file(
    path: str,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = os.environ,
) -> BatchSpec:
    """Return the batch that a file of many tables describes. Connects to nothing.

    Args:
        path: the file's path.
        overrides: options that override those for all tables, but not those of sections;
            `tables` are patterns that select among the tables of the file.
        environ: the environment that fills in `${NAME}`; None leaves it as written, and no variable
            needs to be set.

    Raises:
        UsageError: the file cannot be read, an option is unknown, missing or invalid, sections
            contradict each other, or a URL in the file contains a secret.
    """
    explicit = dict(overrides or {})
    content = read_toml(path, None)
    for end in ("source", "target"):
        if end not in explicit:
            _check_url(content.get(end), f"{path}: {end}", varies=environ is not None)
    raw = content if environ is None else read_toml(path, environ)
    return BatchSpec.from_mapping(raw, path, overrides=explicit, line=lines_of(path))


def _check_url(url: Any, place: str, *, varies: bool) -> None:
    """Check a URL in the file.

    Args:
        url: the URL as written.
        place: where it is written, for the message.
        varies: whether variables are filled in.

    Raises:
        UsageError: the URL contains a secret, or variables where none are filled in.
    """
    if not isinstance(url, str):
        return
    if not varies and VARIABLE.search(url):
        raise UsageError(
            f"{place}: expected env:NAME, a variable that holds the whole URL, which is read "
            "when a copy starts; found a part of the URL as ${NAME}"
        )
    secret = False
    with suppress(PenstockError):  # connecting will report it
        secret = holds_secret(VARIABLE.sub("", url))
    if secret:
        raise UsageError(
            f"{place}: expected a URL without a secret, because files are shared and kept: use "
            "an environment variable for the URL (env:NAME), or write ${NAME} for the secret"
        )
