"""Options in a TOML file: read, with the environment filled in, and found again by their lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import UsageError

UNQUOTED = (
    "did the shell expand a pattern? Put patterns in quotes, as in --source './orders/*', or the "
    "shell replaces them with the names of files"
)

VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_toml(path: str, environ: Mapping[str, str] | None) -> dict[str, Any]:
    """Options from a TOML file: keys with ``-`` or ``_``; ``${NAME}`` from the environment.

    Parameters:
        environ: None: variables stay as they are written.

    Raises:
        UsageError: the file is missing or malformed, a key occurs in both spellings, or a
            variable is not set.
    """
    import tomllib  # noqa: PLC0415 - seldom

    try:
        with open(path, "rb") as file:
            raw = tomllib.load(file)
    except OSError as error:
        raise UsageError(
            f"{path}: expected a TOML file with options, found: {error.strerror}{_unquoted(path)}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}{_unquoted(path)}") from error
    options: dict[str, Any] = {}
    for written, value in raw.items():
        name = written.replace("-", "_")
        if name in options:
            raise UsageError(
                f"{path}: {name!r} appears twice, with '-' and with '_': keep one of them"
            )
        place = f"{path}: {written}"
        options[name] = value if environ is None else _interpolate(value, environ, place)
    return options


def _unquoted(path: str) -> str:
    return "" if path.endswith(".toml") else f"; {UNQUOTED}"


def _interpolate(value: Any, environ: Mapping[str, str], place: str) -> Any:
    if isinstance(value, dict):
        return {name: _interpolate(item, environ, place) for name, item in value.items()}
    if isinstance(value, list):
        return [_interpolate(item, environ, place) for item in value]
    if not isinstance(value, str):
        return value

    def replace(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        name = found[1] or ""
        if _VARIABLE_NAME.fullmatch(name) is None:
            raise UsageError(
                f"{place}: expected ${{NAME}} with the name of an environment variable ($${{ for "
                f"a literal ${{), found {found[0]!r}"
            )
        if name not in environ:
            raise UsageError(f"{place}: environment variable {name!r} is not set")
        return environ[name]

    return VARIABLE.sub(replace, value)


def line_of(path: str, section: tuple[str, ...], key: str | None = None) -> int | None:
    """The line of a section's head, or of a key in it, from 1; None where it is written in some
    other way, such as inline.

    Parameters:
        section: the parts of its name; empty: above the sections.
        key: None: the head.
    """
    here: tuple[str, ...] = ()
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.lstrip().startswith("["):
                    here = _path_of(line.rstrip()) or ()
                    if key is None and here == section:
                        return number
                elif key is not None and here == section and _path_of(line) == (key,):
                    return number
    except (OSError, UnicodeDecodeError):
        pass
    return None


def _path_of(line: str) -> tuple[str, ...] | None:
    """The names on a line that is a section's head, or begins with a key."""
    import tomllib  # noqa: PLC0415 - for errors alone

    text = line if line.lstrip().startswith("[") else f"{line.partition('=')[0]}= 0"
    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    names: tuple[str, ...] = ()
    while isinstance(found, dict) and len(found) == 1:
        ((name, found),) = found.items()
        names += (name,)
    return names
