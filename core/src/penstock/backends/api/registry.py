"""Finding a backend by URL scheme, or by the type of a stored connection.

If files of one scheme have several formats, an entry is named after both: ``file.csv``. Both are
entry points, in the groups `penstock.backends` and `penstock.connections`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.backends.api.imports import allow_all
from penstock.backends.api.installation import install_command
from penstock.errors import PermanentError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from penstock.backends.api.backend import Backend
    from penstock.backends.api.connection_fields import ConnectionFields

ENTRY_POINTS = "penstock.backends"
CONNECTION_TYPES = "penstock.connections"


def _entry_points(group: str = ENTRY_POINTS) -> EntryPoints:
    return _entry_points_on(tuple(sys.path), group)


@cache
def _entry_points_on(path: tuple[str, ...], group: str) -> EntryPoints:
    """Return the entry points on a path.

    Searched once: this reads the metadata of every distribution on the path.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - workers never search

    return entry_points(group=group)


@cache
def _own_entry_points() -> EntryPoints | tuple[()]:
    """Return the entry points of Penstock's own distribution, found by its name."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        return distribution("penstock").entry_points.select(group=ENTRY_POINTS)
    except PackageNotFoundError:
        return ()


def find_backend(url: str, flag: str) -> tuple[Backend, str]:
    """Return the backend of a URL, by its scheme and file format, and its ``module:attribute``.

    Raises:
        UsageError: no backend has that scheme, or its driver is not installed or cannot be loaded.
    """
    scheme = url.partition("://")[0].lower()
    entries = {entry.name: entry for entry in _own_entry_points()}
    if scheme not in entries:
        entries = {entry.name: entry for entry in _entry_points()}
    if scheme not in entries:
        schemes = sorted(name for name in entries if "." not in name)
        raise UsageError(
            f"{flag}: expected a URL with one of the schemes {', '.join(schemes)}; found {scheme!r}"
        )
    formats = (f"{scheme}.{name}" for name in _formats(url))
    entry = next((entries[name] for name in formats if name in entries), entries[scheme])
    return cast("Backend", _loaded(entry, flag)), entry.value


# Extensions of compressed files, which follow the format's.
_COMPRESSED = ("gz", "zst", "bz2", "xz", "zip", "lz4")
_FORMAT = re.compile(r"[?&]format=([a-z]+)", re.IGNORECASE)


def _formats(url: str) -> Iterator[str]:
    """Yield the possible formats of a URL's files, from its own parameter or their extension."""
    if match := _FORMAT.search(url):
        yield match[1].lower()
        return
    name = url.partition("?")[0].rpartition("/")[2].lower()
    _, *extensions = name.split(".")
    if extensions and extensions[-1] in _COMPRESSED:
        extensions.pop()
    yield from extensions[-1:]


def _loaded(entry: EntryPoint, flag: str) -> Any:
    allow_all(entry.module)
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        # penstock.backends.NAME, and modules inside it
        extra = (*entry.module.split("."), "", "")[2]
        raise UsageError(
            f"{flag}: {entry.name} needs the module {error.name!r}; "
            f"install it with: {install_command(extra)}"
        ) from error
    except ImportError as error:  # the module is installed, a library that it loads is not
        raise UsageError(f"{flag}: the driver of {entry.name} cannot be loaded: {error}") from error


def connection_types() -> list[str]:
    """Return the types of stored connections from which a backend can build a URL.

    They are those declared in the entry point group ``penstock.connections``, and the schemes of
    URLs.
    """
    schemes = (entry.name for entry in _entry_points() if not {"+", "."} & {*entry.name})
    return sorted({*schemes, *(entry.name for entry in _entry_points(CONNECTION_TYPES))})


def url_of_connection(fields: ConnectionFields) -> str:
    """Return the URL that a stored connection stands for, with its secrets.

    A type that is only a URL's scheme has no fields of its own: its extra fields become parameters.

    Raises:
        UsageError: no backend supports the type, its driver is not installed, or a field requests
            something that Penstock does not support; the message uses the orchestrator's names of
            fields, and shows no secret.
    """
    for entry in _entry_points(CONNECTION_TYPES):
        if entry.name == fields.kind:
            return str(_loaded(entry, "connection")(fields))
    types = connection_types()
    if fields.kind in types:
        return fields.url(fields.kind, fields.extra_texts())
    raise UsageError(
        f"expected one of the types {', '.join(types)}; found {fields.kind or 'none'!r}; if the "
        "connection is to one of these systems, correct its Connection Type; otherwise copy to or "
        "from files on S3, and let the other system load or unload them"
    )


def url_examples() -> str:
    """Return the backends' URL examples for `--help`, in lines of at most 75 characters.

    They are in ``examples.txt`` next to the module that an entry point names. The module is not
    imported, since that would import its driver.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - workers never search

    texts = {}
    for entry in sorted(_entry_points(), key=lambda entry: entry.value):
        spec = find_spec(entry.value.partition(":")[0])
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).with_name("examples.txt")
            texts[path] = path.read_text(encoding="utf-8") if path.exists() else ""
    return "".join(texts.values())


def ddl_scheme() -> str:
    """Return a URL scheme of the backend whose control tables an administrator may create.

    Raises:
        UsageError: there are several.
    """
    schemes: dict[str, str] = {}
    for entry in _entry_points():
        with suppress(ImportError):  # its driver is not installed
            if cast("Backend", entry.load()).target_capabilities.control_ddl:
                schemes.setdefault(entry.value, entry.name)
    if len(schemes) != 1:
        raise UsageError(
            f"--target: expected a URL, since it may be one of {', '.join(schemes.values())}"
        )
    return next(iter(schemes.values()))


def load_backend(reference: str) -> Backend:
    """Import a backend from the ``module:attribute`` returned by `find_backend`."""
    from importlib import import_module  # noqa: PLC0415 - only workers need it

    module, _, attribute = reference.partition(":")
    allow_all(module)
    try:
        return cast("Backend", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise PermanentError(f"backend {reference!r} cannot be imported: {error}") from error
