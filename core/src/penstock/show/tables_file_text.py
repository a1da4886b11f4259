"""The suggestions for a source's tables, as a file of many tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from penstock.show.text import printable
from penstock.spec.table_sections import layer_options

if TYPE_CHECKING:
    from penstock.engine.survey import Survey
    from penstock.model.tables import TableRef
    from penstock.planning.suggestions import Suggestion

_HEAD = """\
# Tables that are copied every night: penstock copy-all{file}
# What would be done, table by table: penstock plan-all{file}
#
# The most specific section that sets an option wins: one that names the table, then the longest
# pattern, such as [tables."public.log_*"], then [defaults]. Options are those of penstock copy. A
# section with skip = true leaves its tables out.
"""


def tables_file_text(survey: Survey, source: str, target: str, file: str) -> str:
    """Return the text of the file.

    Args:
        survey: the suggestions for the source's tables.
        source: the source's connection for the file, without secrets.
        target: the target's connection for the file, without secrets.
        file: a space and the argument that names the file to other commands; empty if they find it
            by themselves.
    """
    defaults, why = _defaults(survey.tables)
    head = _HEAD.format(file=printable(file))
    lines = [head, *_assignments({"source": source, "target": target})]
    if defaults:
        lines += ["", *_comment(why), "[defaults]", *_assignments(defaults)]
    for each in survey.tables:
        lines += ["", *_section(each, defaults)]
    for each in survey.views:
        lines += ["", *_view(each)]
    return "\n".join(lines) + "\n"


def _defaults(suggestions: Sequence[Suggestion]) -> tuple[dict[str, Any], str]:
    """Return the options that most tables share, and the reason for them.

    Both are empty if the options would also apply to a table that must not have them.
    """
    loaded = [each for each in suggestions if "mode" in each.options]
    kinds = Counter(_shared(each) for each in loaded)
    if not kinds:
        return {}, ""
    usual, _ = kinds.most_common(1)[0]
    options = dict(usual)
    if any(layer_options(options, each.options) != each.options for each in loaded):
        return {}, ""
    return options, next(each.why for each in loaded if _shared(each) == usual)


def _shared(each: Suggestion) -> tuple[tuple[str, Any], ...]:
    """Return the options that another table may share."""
    return tuple(item for item in each.options.items() if item[0] != "conflict_columns")


def _section(each: Suggestion, defaults: Mapping[str, Any]) -> Iterator[str]:
    options, why = each.options, [each.why]
    if options.get("mode") == defaults.get("mode"):
        options = {name: value for name, value in options.items() if defaults.get(name) != value}
        why = []
    yield from _comment("; ".join((*each.facts, *why)))
    yield f"[tables.{_value(pattern_of(each.table))}]"
    yield from _assignments(options)
    for line in _assignments(each.instead):
        yield f"# {line}"


def _view(each: Suggestion) -> Iterator[str]:
    yield from _comment(each.why)
    yield f"# [tables.{_value(pattern_of(each.table))}]"
    for line in _assignments(each.instead):
        yield f"# {line}"


def pattern_of(table: TableRef) -> str:
    """Return a table's section name, as a pattern if the name cannot be a section's."""
    plain = f"{table.schema}.{table.name}"
    if plain == str(table) and plain == escape(plain):
        return plain
    schema, name = (re.sub(r'([*?\[\]."])', r"[\1]", part) for part in (table.schema, table.name))
    return f"{schema}.{name}"


def _assignments(options: Mapping[str, Any]) -> list[str]:
    return [f"{name.replace('_', '-')} = {_value(value)}" for name, value in options.items()]


def _value(value: Any) -> str:
    # JSON and TOML write strings and lists of strings alike, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _comment(text: str) -> list[str]:
    shown = printable(" ".join(text.split()))
    return wrap(shown, 100, initial_indent="# ", subsequent_indent="# ", break_long_words=False)
