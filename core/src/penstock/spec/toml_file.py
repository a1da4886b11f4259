"""Options in a TOML file: reading, filling in environment variables, and finding their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from penstock.errors import UsageError

UNQUOTED = (
    "did the shell expand a pattern? Quote patterns, as in --source './orders/*', or the shell "
    "replaces them with file names"
)

VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_toml(path: str, environ: Mapping[str, str] | None) -> dict[str, Any]:
    """Read options from a TOML file: keys with ``-`` or ``_``; ``${NAME}`` from the environment.

    Args:
        path: the file's path.
        environ: the environment; None leaves variables as written.

    Raises:
        UsageError: the file is missing or malformed, a key occurs in both spellings, or a
            variable is not set.
    """
    import tomllib  # noqa: PLC0415 - rarely needed

    try:
        with open(path, "rb") as file:
            raw = tomllib.load(file)
    except OSError as error:
        raise UsageError(
            f"{path}: expected a TOML file of options: {error.strerror}{_unquoted(path)}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: invalid TOML: {error}{_unquoted(path)}") from error
    options: dict[str, Any] = {}
    for key, value in raw.items():
        name = key.replace("-", "_")
        if name in options:
            raise UsageError(
                f"{path}: {name!r} appears twice, with '-' and with '_'; keep one of them"
            )
        place = f"{path}: {key}"
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

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match[1] or ""
        if _VARIABLE_NAME.fullmatch(name) is None:
            raise UsageError(
                f"{place}: expected ${{NAME}} with the name of an environment variable ($${{ for "
                f"a literal ${{), found {match[0]!r}"
            )
        if name not in environ:
            raise UsageError(f"{place}: environment variable {name!r} is not set")
        return environ[name]

    return VARIABLE.sub(replace, value)


Line = Callable[[tuple[str, ...], str | None], int | None]
"""Returns the line of a section, by the parts of its name, or of a key in it."""


def lines_of(path: str) -> Line:
    """Return a lookup of lines in a file, counted from 1; the first lookup reads the file again.

    Returns: a function of a section's name (empty for the top level) and a key (None for the
        section's header); it returns None for what is written in another way, such as inline.
    """

    @cache
    def line_numbers() -> dict[tuple[tuple[str, ...], str | None], int]:
        lines: dict[tuple[tuple[str, ...], str | None], int] = {}
        section: tuple[str, ...] = ()
        with suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                head = line.lstrip().startswith("[")
                names = _path_of(line.rstrip()) if head or "=" in line else None
                if head:
                    section = names or ()
                    lines.setdefault((section, None), number)
                elif names is not None and len(names) == 1:
                    lines.setdefault((section, names[0]), number)
        return lines

    return lambda section, key: line_numbers().get((section, key))


def _path_of(line: str) -> tuple[str, ...] | None:
    """Return the names on a line that is a section's header, or that begins with a key."""
    import tomllib  # noqa: PLC0415 - only for errors

    text = line if line.lstrip().startswith("[") else f"{line.partition('=')[0]}= 0"
    try:
        node: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    names: tuple[str, ...] = ()
    while isinstance(node, dict) and len(node) == 1:
        ((name, node),) = node.items()
        names += (name,)
    return names
