"""Queries to a catalog, each in a file that is read when needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files


class Queries:
    """The query files of a package.

    Args:
        package: the package with the files, in its folder `sql`. Lines that begin with `--` are
            comments.
        names: the replacement of each name in braces.
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        self._package = package
        self._names = names
        self._read: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """Return a query on one line."""
        if name not in self._read:
            file = files(self._package).joinpath("sql", f"{name}.sql")
            lines = file.read_text(encoding="utf-8").splitlines()
            text = " ".join(line.strip() for line in lines if not line.startswith("--"))
            self._read[name] = text.format_map(self._names)
        return self._read[name]
