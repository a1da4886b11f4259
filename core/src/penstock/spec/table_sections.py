"""Sections of a file of many tables: ``[tables."public.log_*"]``, each with its own options.

The most exact matching section that sets an option decides it: a section with the table's name
comes before one with a pattern, and among patterns the one with the most characters other than
wildcards comes first. `[defaults]` apply where no section sets an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from penstock.errors import UsageError
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec, read_options
from penstock.spec.option_values import RULES, check_one_of
from penstock.spec.toml_file import Line

SKIP = "skip"
_WILDCARD = re.compile(r"\*|\?|\[[^]]+\]")
_FIELDS = {item.name: item for item in fields(CopySpec)}
_BY_COLUMN = (*RULES, "types")


@dataclass(frozen=True, slots=True)
class Section:
    """A section: a table or a pattern, and the options of what it matches.

    Args:
        pattern: a pattern of ``SCHEMA.NAME``; for a query, the name of the target's table.
        options: by the names of `CopySpec`, with values of their types.
        skip: whether the tables are left out; None if the section does not say.
        place: where the section is written, as messages name it.
    """

    pattern: str
    options: Mapping[str, Any]
    skip: bool | None = None
    place: str = field(default="", compare=False)

    @property
    def is_query(self) -> bool:
        """Whether the section copies a query's result."""
        return "query" in self.options

    @property
    def is_name(self) -> bool:
        """Whether the section names one table."""
        return not _WILDCARD.search(self.pattern)

    @property
    def is_table(self) -> bool:
        """Whether the section names one table of the source."""
        return self.is_name and not self.is_query

    @property
    def exactness(self) -> tuple[bool, int]:
        """The rank of the section: a larger value is more exact."""
        return self.is_name, 0 if self.is_name else len(_WILDCARD.sub("", self.pattern))


class SectionMatcher:
    """A lookup of the sections that match a table, fast for sections that name one table.

    Args:
        searched: returns a pattern with each schema of the search path, if it has none.
    """

    def __init__(
        self, sections: Sequence[Section], searched: Callable[[str], Sequence[str]]
    ) -> None:
        self._by_name: dict[str, list[Section]] = {}
        self._patterns: list[tuple[Section, Sequence[str]]] = []
        for section in sections:
            if section.is_table:
                for name in searched(section.pattern):
                    self._by_name.setdefault(name, []).append(section)
            elif not section.is_query:
                self._patterns.append((section, searched(section.pattern)))

    def of(self, table: TableRef) -> list[Section]:
        """Return the sections that match a table."""
        texts = {f"{table.schema}.{table.name}", str(table)}
        sections = [section for text in texts for section in self._by_name.get(text, ())]
        for section, patterns in self._patterns:
            if any(
                text == pattern or fnmatchcase(text, pattern)
                for text in texts
                for pattern in patterns
            ):
                sections.append(section)
        return sections


def read_sections(
    raw: Mapping[str, Any], origin: str, forbidden: Iterable[str], line: Line
) -> tuple[Section, ...]:
    """Read the sections of a file.

    Args:
        raw: the sections as written, by pattern.
        origin: the file, for messages.
        forbidden: options that belong to the whole batch.
        line: returns the line of a section or key.

    Raises:
        UsageError: a section or an option is invalid; the message names file, section and key.
    """
    of_batch = frozenset(forbidden)
    sections = []
    for pattern, options_as_given in raw.items():
        head = f'[tables."{pattern}"]'

        def at(key: str | None, pattern: str = pattern, head: str = head) -> str:
            number = line(("tables", pattern), key) or line(("tables", pattern), None)
            return f"{origin}:{number}: {head}" if number else f"{origin}: {head}"

        if not pattern.strip():
            raise UsageError(f"{at(None)}: expected a table or a pattern, found an empty name")
        if not isinstance(options_as_given, Mapping):
            raise UsageError(
                f'{origin}: tables: expected sections such as [tables."public.orders"] with a '
                f"table's options; found {pattern} = {options_as_given!r}"
            )
        options: dict[str, Any] = {}
        skip = None
        for key, value in options_as_given.items():
            name = key.replace("-", "_")
            if name in of_batch:
                raise UsageError(
                    f"{at(key)}: {key} applies to the whole batch; move it above the sections"
                )
            if name == "table":
                raise UsageError(
                    f"{at(key)}: {key}: the section's name already names the table; omit {key}"
                )
            if name in options or (name == SKIP and skip is not None):
                raise UsageError(
                    f"{at(key)}: {key} appears twice, with '-' and with '_'; keep one of them"
                )
            if name == SKIP:
                if not isinstance(value, bool):
                    raise UsageError(f"{at(key)}: skip: expected true or false, found {value!r}")
                skip = value
                continue
            options |= read_option(key, value, at(key))
        section = Section(pattern, options, skip, at(None))
        for name in ("query", "target_table"):
            if name in options and not section.is_name:
                raise UsageError(
                    f"{at(name)}: {name} applies to one table: expected a name without wildcards"
                )
        sections.append(section)
    return tuple(sections)


def read_option(key: str, value: Any, place: str) -> dict[str, Any]:
    """Return an option under its name in `CopySpec`, with its value checked by itself.

    Args:
        key: the option's name, as written.
        value: its value, as written.
        place: where it is written, for messages.

    Raises:
        UsageError: the option is invalid; the message names the place and the key.
    """
    options = read_options({key: value}, place)
    ((name, read),) = options.items()
    if choices := _FIELDS[name].metadata["choices"]:
        try:
            check_one_of(name, read, choices)
        except UsageError as error:
            raise UsageError(f"{place}: {error.message}") from None
    return options


def layer_options(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with overrides applied.

    Another mode drops the options that belong to a mode; rules for columns are overridden column by
    column, so that adding a mask keeps the others.
    """
    mode = above.get("mode")
    if mode is not None and mode != below.get("mode", _FIELDS["mode"].default):
        below = {name: v for name, v in below.items() if not _FIELDS[name].metadata.get("of_mode")}
    joined = {
        name: _joined(below[name], above[name])
        for name in _BY_COLUMN
        if below.get(name) and above.get(name)
    }
    return {**below, **above, **joined}


def _joined(below: Sequence[str], above: Sequence[str]) -> tuple[str, ...]:
    rules = {rule.partition("=")[0].strip(): rule for rule in (*below, *above)}
    return tuple(rules.values())


def options_of(
    table: str, matching: Sequence[Section], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Return the options of a table, and whether it is left out.

    Args:
        table: its name, for messages.
        matching: the sections that match it.
        defaults: options that apply below all sections.

    Raises:
        UsageError: two sections of the same exactness contradict each other.
    """
    levels = [
        list(level)
        for _, level in groupby(
            sorted(matching, key=lambda section: section.exactness),
            key=lambda section: section.exactness,
        )
    ]
    options, skip = dict(defaults), False
    for number, level in enumerate(levels):
        # Contradictions do not matter where a more exact section overrides them.
        above = {
            name for later in levels[number + 1 :] for each in later for name in _settings(each)
        }
        chosen: dict[str, Any] = {}
        for section in level:
            for name, value in _settings(section).items():
                if name in chosen and chosen[name] != value and name not in above:
                    rival = next(each for each in level if name in _settings(each))
                    raise UsageError(
                        f"{section.place}: {name}: {value!r} conflicts with {chosen[name]!r} in "
                        f"{rival.place}, which matches {table} just as specifically; decide in "
                        f'[tables."{table}"]'
                    )
                chosen.setdefault(name, value)
        skip = chosen.pop(SKIP, skip)
        options = layer_options(options, chosen)
    return options, skip


def _settings(section: Section) -> dict[str, Any]:
    return {**section.options, **({} if section.skip is None else {SKIP: section.skip})}
