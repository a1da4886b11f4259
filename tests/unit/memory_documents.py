"""Documents in memory, for simulations of leases and turns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping


class Documents:
    """Documents in memory, changed under the conditions of a bucket."""

    def __init__(self) -> None:
        self.content: dict[str, tuple[bytes, str]] = {}
        self._versions = itertools.count(1)

    def create(self, name: str, content: bytes) -> bool:
        if name in self.content:
            return self.content[name][0] == content
        self.content[name] = content, str(next(self._versions))
        return True

    def replace(self, name: str, content: bytes, version: str) -> bool:
        if self.content.get(name, (b"", ""))[1] != version:
            return False
        self.content[name] = content, str(next(self._versions))
        return True

    def get(self, name: str) -> tuple[bytes, str] | None:
        return self.content.get(name)

    def read_all(self, folder: str) -> Mapping[str, tuple[bytes, str]]:
        return {name: each for name, each in self.content.items() if name.startswith(f"{folder}/")}

    def find_all(self, folder: str, file: str) -> Mapping[str, tuple[bytes, str]]:
        raise NotImplementedError

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.content.pop(name, None)
