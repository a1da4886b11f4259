"""Texts about many tables, folded if they differ only in the tables' names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.show.text import one_line

FEW = 20
"""The largest number of tables that are shown one by one."""
_NAMED = 3
# Run ids and object ids may differ as well.
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class FoldedText:
    """A text that is the same for many tables."""

    text: str
    """The text about the first table."""
    tables: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text, count = one_line(self.text), len(self.tables)
        if count == 1:
            return f"{one_line(self.tables[0])}: {text}"
        names = ", ".join(map(one_line, self.tables[:_NAMED]))
        return f"{count:,} tables ({names}{', ...' if count > _NAMED else ''}), the first: {text}"


def pattern_of(table: str, text: str) -> str:
    """Return a text without its table's name, so that equal texts about tables compare equal."""
    pattern = text
    for name in (table, table.rpartition(".")[2]):
        pattern = _without(name, pattern) if name else pattern
    return _NUMBERS.sub("0", pattern)


def _without(name: str, text: str) -> str:
    """Remove names that are words of the text; a regular expression per table would be slow."""
    first, *rest = text.split(name)
    for part in rest:
        is_word = not (_ends_in_word(first[-1:]) or _ends_in_word(part[:1]))
        first += ("?" if is_word else name) + part
    return first


def _ends_in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def fold_texts(texts: Iterable[tuple[str, str]]) -> list[FoldedText]:
    """Fold texts, those about most tables first.

    Args:
        texts: pairs of a table and a text.
    """
    by_pattern: dict[str, FoldedText] = {}
    for table, text in texts:
        by_pattern.setdefault(pattern_of(table, text), FoldedText(text)).tables.append(table)
    return sorted(by_pattern.values(), key=lambda each: -len(each.tables))


def folded_lines(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Return one line per text if there are few, otherwise one per group of equal texts.

    Args:
        texts: pairs of a table and a text.
    """
    if len(texts) <= FEW:
        return [f"{one_line(table)}: {one_line(text)}" for table, text in texts]
    groups = fold_texts(texts)
    lines = list(map(str, groups[:FEW]))
    if len(groups) > FEW:
        lines.append(f"and {len(groups) - FEW:,} more, of other kinds: --json lists all of them")
    return lines
