"""`batch_of_file`: a file of many tables as a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.engine.connections import added_secrets, holds_secret
from penstock.errors import PenstockError, UsageError
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


def check_found_file(path: str, overrides: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Check that a file that the user has not named sends no secret to a server of its choice.

    Args:
        path: the file's path.
        overrides: options from the command line.
        environ: the environment.

    Raises:
        UsageError: a URL in the file names the server, and would get a variable's value.
    """
    content = read_toml(path, None)
    for end in ("source", "target"):
        written = content.get(end)
        if end in overrides or not isinstance(written, str):
            continue
        if names := _variables_sent(written, environ):
            raise UsageError(
                f"{path}: {end}: expected a server that the command or the environment names, "
                "found one that a file of the current folder names, and which would be sent "
                f"{names[0]}: if you trust the file, name it, as in penstock copy-all {path}; or "
                f'use --{end}, or {end} = "env:NAME" in the file'
            )


def _variables_sent(written: str, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the environment variables that a server of the file's choice would be sent."""
    scheme, _, rest = written.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    if VARIABLE.search(scheme) or (VARIABLE.search(host) and "?" not in rest):
        return ()  # the environment names the server
    if names := [match[1] for match in VARIABLE.finditer(written) if match[1]]:
        return [f"the variable {name}" for name in names]
    with suppress(PenstockError):  # connecting will report it
        return added_secrets(written, environ)
    return ()


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
            "an environment variable for the URL (env:NAME) or a file (file:/PATH), or write "
            "${NAME} for the secret"
        )
