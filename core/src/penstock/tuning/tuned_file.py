"""The recommendation of `tune`, as a file that `copy --tuned` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import UsageError
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import read_options
from penstock.spec.groups.route import UNNAMED
from penstock.tuning.measurements import Tuning

_OF_TABLE = ("table", "query", "target_table")
_TUNED = ("degree", "unlogged", "indexes")


def toml_text(tuning: Tuning) -> str:
    """Return the file's text, TOML."""
    best = tuning.recommendation
    values: dict[str, Any] = {
        name: value for name in _OF_TABLE if (value := getattr(tuning, name)) is not None
    }
    values |= {"degree": best.setting.degree, **best.setting.load}
    lines = [
        f"# Written by penstock tune at {tuning.at}, for: penstock copy --tuned FILE",
        f"# {best.setting}: {best.reason}",
        *(f"{name} = {_toml(value)}" for name, value in values.items()),
    ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, str):
        value = value.replace("${", "$${")
    # Apart from one character, a JSON string is a TOML string.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def tuned_options(
    raw: Mapping[str, Any], path: str, options_of_copy: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options that a file recommends.

    Args:
        raw: the content of the file, by name.
        path: the file's path, for messages.
        options_of_copy: options of the copy from elsewhere.

    Raises:
        UsageError: the file is not from `tune`, or is for another table.
    """
    unknown = [repr(name) for name in raw if name not in (*_OF_TABLE, *_TUNED)]
    missing = [f"no {name}" for name in ("target_table", "degree") if name not in raw]
    if unknown or missing:
        raise UsageError(
            f"--tuned {path}: expected a file written by penstock tune --out, with "
            f"{', '.join((*_OF_TABLE, *_TUNED))} and nothing else; found "
            + ", ".join((*unknown, *missing))
        )
    options = read_options(raw, f"--tuned {path}")
    for name in _OF_TABLE:
        mine, theirs = _of_table(name, options_of_copy), options.get(name)
        if not _is_same(name, mine, theirs):
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"--tuned {path}: measured for another table: expected {flag} {mine or 'none'}, "
                f"found {theirs or 'none'}; run penstock tune for this one"
            )
    return {name: options[name] for name in _TUNED if name in options}


def _of_table(name: str, options: Mapping[str, Any]) -> str | None:
    value = options.get(name)
    if value is None and name == "target_table":
        value = options.get("table") or UNNAMED
    return None if value is None else str(value)


def _is_same(name: str, mine: str | None, theirs: str | None) -> bool:
    """Whether both name the same table; one without a schema is found by the search path."""
    if mine is None or theirs is None or name == "query":
        return mine == theirs
    first, second = (TableRef.parse(text, f"--{name}") for text in (mine, theirs))
    schemas = {first.schema, second.schema} - {""}
    return first.name == second.name and len(schemas) < 2
