"""`BatchSpec`, the user's request for a batch: its tables, and how to copy each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

from penstock.errors import UsageError
from penstock.model.tables import TableRef
from penstock.model.values import ShowValues
from penstock.spec.copy_spec import CopySpec, read_options
from penstock.spec.degrees import AUTO
from penstock.spec.groups.execution import ON_TABLE_ERROR, OnTableError
from penstock.spec.ids import MAX_RUN_ID, check_run_id
from penstock.spec.table_sections import (
    Section,
    SectionMatcher,
    layer_options,
    options_of,
    read_option,
    read_sections,
)
from penstock.spec.toml_file import Line

TABLES_FILE = "penstock.toml"
"""The default name of a file of many tables."""
# A table's run id is the batch's, a hyphen and an eight-character suffix.
MAX_BATCH_ID = MAX_RUN_ID - 9
_OWN = ("tables", "exclude", "target_schema", "on_table_error")
# Options of the whole batch: one pool of streams copies all tables.
_OF_POOL = ("degree", "max_rate", "max_lag", "show_values")
_COMMON = ("source", "target", "run_id", "control_schema", *_OF_POOL)
_PER_TABLE = ("query", "target_table")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Many tables between the same two databases.

    Args:
        tables: patterns of ``SCHEMA.NAME``, as in `fnmatch`; a pattern without a dot matches names
            in the source's search path.
        exclude: patterns of tables to leave out; one without a dot matches names in any schema.
        entries: tables listed one by one, each with its own options.
        sections: tables by names and patterns, with their own options. If `tables` is set, sections
            apply only to the tables that it matches.
        defaults: options for every table.
        target_schema: the schema for the tables, instead of the one they come from.
        on_table_error: whether to continue with the other tables after one has failed, or to stop.

    Raises:
        UsageError: an option is invalid.
    """

    source: str = field(repr=False)
    target: str = field(repr=False)
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    entries: tuple[Mapping[str, Any], ...] = ()
    sections: tuple[Section, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    target_schema: str | None = None
    on_table_error: OnTableError = "continue"
    run_id: str | None = None
    control_schema: str = "penstock"
    degree: int | str = AUTO
    max_rate: int | None = None
    max_lag: float | None = None
    show_values: ShowValues | None = None
    origin: str = "copy-all"
    """The origin of the options, for error messages."""

    def __post_init__(self) -> None:
        if not self.tables and not self.entries and not self.sections:
            raise UsageError(
                f'{self.origin}: expected tables (--tables PATTERN, or [tables."PATTERN"] in a '
                "file), found none"
            )
        if self.on_table_error not in ON_TABLE_ERROR:
            raise UsageError(
                f"--on-table-error: expected one of {', '.join(ON_TABLE_ERROR)}; "
                f"found {self.on_table_error!r}"
            )
        if self.run_id is not None:
            if len(self.run_id) > MAX_BATCH_ID:
                raise UsageError(
                    f"--run-id: expected at most {MAX_BATCH_ID} characters for a batch, found "
                    f"{len(self.run_id)}"
                )
            check_run_id(self.run_id)
        self._check_targets(self._named_specs([t for t in self._named_refs() if t.schema]))

    @classmethod
    def from_mapping(
        cls,
        raw: Mapping[str, Any],
        origin: str,
        *,
        overrides: Mapping[str, Any] | None = None,
        line: Line = lambda section, key: None,
    ) -> BatchSpec:
        """Read options from a TOML file or a command line.

        Args:
            raw: the options, by name.
            origin: where they come from, for messages.
            overrides: options that override those of `raw`, except in its sections.
            line: returns the line of a section or key in the file.

        Raises:
            UsageError: an unknown or missing option, or a value of the wrong type.
        """
        options = {name.replace("-", "_"): value for name, value in raw.items()}
        entries = options.pop("table", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise UsageError(f"{origin}: table: expected [[table]] sections, found {entries!r}")
        sections = _sections(options, origin, line)
        if sections and entries:
            raise UsageError(
                f'{origin}: expected tables as [tables."NAME"] or as [[table]], found both'
            )
        _add_defaults(options, origin, line)
        explicit = dict(overrides or {})
        of_batch = {
            name: mapping.pop(name)
            for mapping in (options, explicit)
            for name in _OWN
            if name in mapping
        }
        for name in ("tables", "exclude"):
            if name in of_batch:
                of_batch[name] = _patterns(of_batch[name], f"{origin}: {name}")
        for name in _PER_TABLE:
            if name in options:
                raise UsageError(f"{origin}: {name} belongs in the section of a table")
        defaults = layer_options(read_options(options, origin), read_options(explicit, origin))
        missing = [f"--{name}" for name in ("source", "target") if not defaults.get(name)]
        if missing:
            raise UsageError(f"{origin}: expected {', '.join(missing)}; found none")
        common = {name: defaults.pop(name) for name in _COMMON if name in defaults}
        return cls(
            entries=tuple(entries),
            sections=sections,
            defaults=defaults,
            origin=origin,
            **common,
            **of_batch,
        )

    def named_tables(self, copied_sources: Sequence[str] = ()) -> list[CopySpec]:
        """Return the specs of the tables named one by one, in entries and in sections.

        Args:
            copied_sources: names of more tables, for the patterns of sections.

        Raises:
            UsageError: an option is unknown, missing or invalid, or a table is named twice.
        """
        more = [TableRef.parse(name, "tables") for name in copied_sources]
        specs = self._named_specs([*self._named_refs(), *more])
        self._check_targets(specs)
        return specs

    def kinds_of_tables(self) -> list[Mapping[str, Any]]:
        """Return the combinations of options that tables may have.

        They are the batch's own, and those of its entries or sections.
        """
        section_options = [section.options for section in self.sections]
        entry_options = [
            {n.replace("-", "_"): v for n, v in entry.items()} for entry in self.entries
        ]
        everywhere = [] if self.sections else [self.defaults]
        return [
            *everywhere,
            *(layer_options(self.defaults, each) for each in (*section_options, *entry_options)),
        ]

    def _named_refs(self) -> list[TableRef]:
        return [TableRef.parse(s.pattern, s.place) for s in self.sections if s.is_table]

    def _named_specs(self, tables: Sequence[TableRef]) -> list[CopySpec]:
        return [*self._entry_specs(), *self._section_specs(tables, lambda pattern: (pattern,))]

    def _entry_specs(self) -> list[CopySpec]:
        specs = [
            self._query_spec(section)
            for section in self.sections
            if section.is_query and not section.skip
        ]
        for number, entry in enumerate(self.entries, 1):
            name = entry.get("table") or entry.get("target-table") or entry.get("target_table")
            place = f"{self.origin}: [[table]] {name or number}"
            for key in entry:
                if key.replace("-", "_") in (*_COMMON, *_OWN):
                    raise UsageError(
                        f"{place}: {key} applies to the whole batch; move it above the sections"
                    )
            try:
                specs.append(self._spec(entry, place))
            except UsageError as error:
                if error.message.startswith(place):
                    raise
                raise UsageError(f"{place}: {error.message}") from None
        return specs

    def _query_spec(self, section: Section) -> CopySpec:
        query_options = {"target_table": section.pattern, **section.options}
        return self._layered_spec(layer_options(self.defaults, query_options), section.place)

    def _section_specs(
        self, tables: Sequence[TableRef], searched: Callable[[str], Sequence[str]]
    ) -> list[CopySpec]:
        """Return the specs of tables that sections match, except those left out."""
        sections = SectionMatcher(self.sections, searched)
        specs = []
        for table in dict.fromkeys(tables):
            matching = sections.of(table)
            options, skip = options_of(str(table), matching, self.defaults)
            if not skip:
                places = " and ".join(section.place for section in matching)
                place = places if str(table) in places else f"{places}: {table}"
                specs.append(self._layered_spec({**options, "table": str(table)}, place))
        return specs

    def _layered_spec(self, options: Mapping[str, Any], place: str) -> CopySpec:
        """Return the spec of a table from layered options.

        Raises:
            UsageError: an option is invalid; the message names the place.
        """
        try:
            return self._spec(options, place, {})
        except UsageError as error:
            if error.message.startswith(place):
                raise
            raise UsageError(f"{place}: {error.message}") from None

    def specs(
        self,
        tables: Sequence[TableRef],
        with_schemas: Callable[[CopySpec], CopySpec],
        searched: Callable[[str], Sequence[str]] = lambda pattern: (pattern,),
    ) -> list[CopySpec]:
        """Return a spec for every table: the named ones, and those found by patterns.

        Args:
            tables: the tables that the patterns match.
            with_schemas: adds the schemas of tables that are named without one.
            searched: returns a pattern with each schema of the search path, if it has none.

        Raises:
            UsageError: two tables would be loaded into the same one.
        """
        entry_specs = [with_schemas(spec) for spec in self._entry_specs()]
        if self.sections:
            if self.tables:
                entry_specs = [
                    spec for spec in entry_specs if _is_any(spec.target_ref, self.tables)
                ]
            section_specs = self._section_specs(tables, searched)
        else:
            named_relations = {spec.relation for spec in entry_specs}
            section_specs = [
                self._spec({"table": str(table)}, self.origin)
                for table in tables
                if table not in named_relations
            ]
        targets = {spec.target_ref for spec in entry_specs}
        specs = [*entry_specs, *(spec for spec in section_specs if spec.target_ref not in targets)]
        self._check_targets(specs)
        return specs

    @property
    def has_patterns(self) -> bool:
        """Whether only the source knows all of its tables."""
        return bool(self.tables) or any(
            not section.is_name and not section.skip for section in self.sections
        )

    def specs_of_known(self, tables: Sequence[TableRef], schemas: Sequence[str]) -> list[CopySpec]:
        """Return a spec for every table, from a list of the source's tables that was read earlier.

        Tables that are named are not looked up. Whatever else is not in the list has no spec.

        Args:
            tables: tables of the source, with schemas.
            schemas: the search path of the source, for patterns without a schema.

        Raises:
            UsageError: two tables would be loaded into the same one, or an option is invalid.
        """

        def searched(pattern: str) -> tuple[str, ...]:
            if "." in pattern or not schemas:
                return (pattern,)
            return tuple(f"{escape(schema)}.{pattern}" for schema in schemas)

        named = self._named_refs()
        names = {name for table in named for name in searched(str(table))}
        sections = SectionMatcher(self.sections, searched)
        others = [
            table
            for table in tables
            if _text(table) not in names and (sections.of(table) or not self.sections)
        ]
        include = [each for pattern in self.tables for each in searched(pattern)]
        exclude = [each if "." in each else f"*.{each}" for each in self.exclude]
        if not self.sections and not include:
            others = []

        def is_chosen(table: TableRef) -> bool:
            forms = [TableRef(schema, table.name) for schema in schemas] or [table]
            texts = [_text(each) for each in ([table] if table.schema else forms)]
            return any(
                (not include or any(fnmatchcase(text, each) for each in include))
                and not any(fnmatchcase(text, each) for each in exclude)
                for text in texts
            )

        chosen = [table for table in (*named, *others) if is_chosen(table)]
        return self.specs(chosen, lambda spec: spec, searched)

    def _check_targets(self, specs: Sequence[CopySpec]) -> None:
        sources: dict[TableRef, str] = {}
        for spec in specs:
            if spec.target_ref in sources:
                raise UsageError(
                    f"{self.origin}: two tables would be copied to {spec.target_ref}: "
                    f"{sources[spec.target_ref]} and {spec.source_name}"
                )
            sources[spec.target_ref] = spec.source_name

    def _spec(
        self, entry: Mapping[str, Any], place: str, defaults: Mapping[str, Any] | None = None
    ) -> CopySpec:
        """Return the spec of one entry.

        Args:
            entry: the options of the entry.
            place: where it is written, for messages.
            defaults: values of options that the entry does not set; None for the batch's defaults.
        """
        below = self.defaults if defaults is None else defaults
        options = {**below, **{n.replace("-", "_"): v for n, v in entry.items()}}
        options |= {"source": self.source, "target": self.target}
        options["control_schema"] = self.control_schema
        options |= {name: value for name in _OF_POOL if (value := getattr(self, name)) is not None}
        if self.target_schema and "target_table" not in options and "table" in options:
            source = TableRef.parse(str(options["table"]), f"{place}: table")
            options["target_table"] = str(TableRef(self.target_schema, source.name))
        return CopySpec.from_mapping(options, place)


def _text(table: TableRef) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name


def _is_any(table: TableRef, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(str(table), pattern) for pattern in patterns)


def _sections(options: dict[str, Any], origin: str, line: Line) -> tuple[Section, ...]:
    """Remove the sections from the options and return them."""
    if not isinstance(options.get("tables"), Mapping):
        return ()
    return read_sections(options.pop("tables"), origin, (*_COMMON, *_OWN), line)


def _add_defaults(options: dict[str, Any], origin: str, line: Line) -> None:
    """Move the options of `[defaults]` to the top level, which means the same.

    Raises:
        UsageError: an option belongs to the whole batch or to one table, or is set in both places.
    """
    defaults = options.pop("defaults", {})
    if not isinstance(defaults, Mapping):
        raise UsageError(f"{origin}: defaults: expected a section [defaults], found {defaults!r}")
    for key, value in defaults.items():
        name = key.replace("-", "_")
        number = line(("defaults",), key)
        place = f"{origin}:{number}: [defaults]" if number else f"{origin}: [defaults]"
        if name in (*_COMMON, *_OWN):
            raise UsageError(f"{place}: {key} applies to the whole batch; move it above [defaults]")
        if name in ("table", *_PER_TABLE):
            raise UsageError(f"{place}: {key} belongs in the section of a table")
        if name in options:
            raise UsageError(f"{place}: {key} is also set above [defaults]; keep one of them")
        options |= read_option(key, value, place)


def _patterns(value: Any, place: str) -> tuple[str, ...]:
    patterns = value.split(",") if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple) or not all(isinstance(p, str) for p in patterns):
        raise UsageError(f"{place}: expected patterns such as 'public.*', found {value!r}")
    if not all(pattern.strip() for pattern in patterns):
        raise UsageError(f"{place}: expected patterns such as 'public.*', found an empty string")
    return tuple(pattern.strip() for pattern in patterns)


def run_id_of(batch_id: str, spec: CopySpec) -> str:
    """Return the id of a table's run: the batch's and a suffix that never changes."""
    content = f"{spec.source_name if spec.table else spec.query} {spec.target_ref}"
    return f"{batch_id}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def batch_of(run_id: str, spec: CopySpec) -> str:
    """Return the id of the batch that a run belongs to; empty if it belongs to none."""
    batch_id = run_id.rpartition("-")[0]
    return batch_id if batch_id and run_id_of(batch_id, spec) == run_id else ""
