"""What a person asks for in a batch: which tables, and how to copy each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from penstock.errors import UsageError
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec, read_options
from penstock.spec.degrees import AUTO
from penstock.spec.ids import MAX_RUN_ID, check_run_id
from penstock.spec.table_sections import (
    LineOf,
    Section,
    layered,
    options_of,
    read_option,
    read_sections,
)

TABLES_FILE = "penstock.toml"
"""What a file of many tables is called, by default."""
ON_TABLE_ERROR = ("continue", "stop")
# A table's run id is the batch's, a hyphen and eight letters.
MAX_BATCH_ID = MAX_RUN_ID - 9
_OWN = ("tables", "exclude", "target_schema", "on_table_error")
# What the whole batch shares: one pool of streams copies all tables.
_OF_POOL = ("degree", "max_rate", "max_lag", "show_values")
_COMMON = ("source", "target", "run_id", "control_schema", *_OF_POOL)
_PER_TABLE = ("query", "target_table")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Many tables between the same two databases.

    Parameters:
        tables: patterns of ``SCHEMA.NAME``, as in `fnmatch`; without a dot they match names in the
            source's search path.
        exclude: patterns of tables to leave out; without a dot they match names in any schema.
        entries: tables named one by one, each with options of its own.
        sections: tables by names and patterns, with options of their own. With `tables`, those of
            them that these match.
        defaults: options for every table.
        target_schema: where the tables go, instead of the schema they come from.
        on_table_error: after a table has failed: continue with the others, or stop.

    Raises:
        UsageError: an option is wrong.
    """

    source: str = field(repr=False)
    target: str = field(repr=False)
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    entries: tuple[Mapping[str, Any], ...] = ()
    sections: tuple[Section, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    target_schema: str | None = None
    on_table_error: str = "continue"
    run_id: str | None = None
    control_schema: str = "penstock"
    degree: int | str = AUTO
    max_rate: int | None = None
    max_lag: float | None = None
    show_values: str | None = None
    origin: str = "copy-all"
    """Where the options come from, for error messages."""

    def __post_init__(self) -> None:
        if not self.tables and not self.entries and not self.sections:
            raise UsageError(
                f'{self.origin}: expected tables: --tables PATTERN, or [tables."PATTERN"] in a '
                "file; found none"
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
        self._check_targets(self._named_specs([t for t in self._named() if t.schema]))

    @classmethod
    def from_mapping(
        cls,
        raw: Mapping[str, Any],
        origin: str,
        *,
        overrides: Mapping[str, Any] | None = None,
        line: LineOf = lambda section, key: None,
    ) -> BatchSpec:
        """Read options as a TOML file or a command line gives them.

        Parameters:
            overrides: options that override those of `raw` but for its sections.
            line: finds the line of a section of the file.

        Raises:
            UsageError: an unknown or missing option, or a value of the wrong type.
        """
        written = {name.replace("-", "_"): value for name, value in raw.items()}
        entries = written.pop("table", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise UsageError(f"{origin}: table: expected [[table]] sections, found {entries!r}")
        sections = _sections(written, origin, line)
        if sections and entries:
            raise UsageError(
                f'{origin}: expected tables as [tables."NAME"] or as [[table]], found both'
            )
        _add_defaults(written, origin, line)
        asked = dict(overrides or {})
        own = {
            name: given.pop(name) for given in (written, asked) for name in _OWN if name in given
        }
        for name in ("tables", "exclude"):
            if name in own:
                own[name] = _patterns(own[name], f"{origin}: {name}")
        for name in _PER_TABLE:
            if name in written:
                raise UsageError(f"{origin}: {name} belongs in the section of a table")
        defaults = layered(read_options(written, origin), read_options(asked, origin))
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
            **own,
        )

    def named_tables(self, others: Sequence[str] = ()) -> list[CopySpec]:
        """The specs of the tables that are named one by one, by entries and by sections.

        Parameters:
            others: names of more tables, which sections match by patterns.

        Raises:
            UsageError: an option is unknown, missing or wrong, or a table is named twice.
        """
        more = [TableRef.parse(name, "tables") for name in others]
        specs = self._named_specs([*self._named(), *more])
        self._check_targets(specs)
        return specs

    def kinds_of_tables(self) -> list[Mapping[str, Any]]:
        """Options that tables may have, as far as the batch says: those that it gives to all, and
        those of its entries or sections."""
        own = [section.options for section in self.sections]
        named = [{n.replace("-", "_"): v for n, v in entry.items()} for entry in self.entries]
        everywhere = [] if self.sections else [self.defaults]
        return [*everywhere, *(layered(self.defaults, each) for each in (*own, *named))]

    def _named(self) -> list[TableRef]:
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
            named = entry.get("table") or entry.get("target-table") or entry.get("target_table")
            place = f"{self.origin}: [[table]] {named or number}"
            for written in entry:
                if written.replace("-", "_") in (*_COMMON, *_OWN):
                    raise UsageError(
                        f"{place}: {written} applies to the whole batch: move it above the sections"
                    )
            try:
                specs.append(self._spec(entry, place))
            except UsageError as error:
                if error.message.startswith(place):
                    raise
                raise UsageError(f"{place}: {error.message}") from None
        return specs

    def _query_spec(self, section: Section) -> CopySpec:
        own = {"target_table": section.pattern, **section.options}
        return self._layered_spec(layered(self.defaults, own), section.place)

    def _section_specs(
        self, tables: Sequence[TableRef], searched: Callable[[str], Sequence[str]]
    ) -> list[CopySpec]:
        """The specs of tables that sections match, but for those that are left out."""
        patterns = [(section, searched(section.pattern)) for section in self.sections]
        specs = []
        for table in dict.fromkeys(tables):
            matching = [
                each for each, searched_for in patterns if each.matches(table, searched_for)
            ]
            options, skip = options_of(str(table), matching, self.defaults)
            if not skip:
                places = " and ".join(section.place for section in matching)
                place = places if str(table) in places else f"{places}: {table}"
                specs.append(self._layered_spec({**options, "table": str(table)}, place))
        return specs

    def _layered_spec(self, options: Mapping[str, Any], place: str) -> CopySpec:
        """
        Raises:
            UsageError: names the place.
        """
        try:
            return self._spec(options, place, {})
        except UsageError as error:
            if error.message.startswith(place):
                raise
            raise UsageError(f"{place}: {error.message}") from None

    def specs(
        self,
        found: Sequence[TableRef],
        with_schemas: Callable[[CopySpec], CopySpec],
        searched: Callable[[str], Sequence[str]] = lambda pattern: (pattern,),
    ) -> list[CopySpec]:
        """A spec for every table: the named ones, and those that patterns have found.

        Parameters:
            with_schemas: finds the schemas of tables that are named without one.
            searched: a pattern with each schema of the search path, where it has none.

        Raises:
            UsageError: two tables would go into one.
        """
        named = [with_schemas(spec) for spec in self._entry_specs()]
        if self.sections:
            if self.tables:
                named = [spec for spec in named if _is_any(spec.target_ref, self.tables)]
            others = self._section_specs(found, searched)
        else:
            known = {spec.relation for spec in named}
            others = [
                self._spec({"table": str(table)}, self.origin)
                for table in found
                if table not in known
            ]
        targets = {spec.target_ref for spec in named}
        specs = [*named, *(spec for spec in others if spec.target_ref not in targets)]
        self._check_targets(specs)
        return specs

    def _check_targets(self, specs: Sequence[CopySpec]) -> None:
        sources: dict[TableRef, str] = {}
        for spec in specs:
            if spec.target_ref in sources:
                raise UsageError(
                    f"{self.origin}: two tables would go into {spec.target_ref}: "
                    f"{sources[spec.target_ref]} and {spec.source_name}"
                )
            sources[spec.target_ref] = spec.source_name

    def _spec(
        self, entry: Mapping[str, Any], place: str, defaults: Mapping[str, Any] | None = None
    ) -> CopySpec:
        """
        Parameters:
            defaults: the batch's own by default.
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


def _is_any(table: TableRef, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(str(table), pattern) for pattern in patterns)


def _sections(written: dict[str, Any], origin: str, line: LineOf) -> tuple[Section, ...]:
    """Take the sections out of what is written."""
    if not isinstance(written.get("tables"), Mapping):
        return ()
    return read_sections(written.pop("tables"), origin, (*_COMMON, *_OWN), line)


def _add_defaults(written: dict[str, Any], origin: str, line: LineOf) -> None:
    """Move what `[defaults]` has to the options above the sections, which mean the same.

    Raises:
        UsageError: an option that belongs to the whole batch or to one table, or one that is said
            twice.
    """
    defaults = written.pop("defaults", {})
    if not isinstance(defaults, Mapping):
        raise UsageError(f"{origin}: defaults: expected a section [defaults], found {defaults!r}")
    for key, value in defaults.items():
        name = key.replace("-", "_")
        number = line(("defaults",), key)
        place = f"{origin}:{number}: [defaults]" if number else f"{origin}: [defaults]"
        if name in (*_COMMON, *_OWN):
            raise UsageError(f"{place}: {key} applies to the whole batch: move it above [defaults]")
        if name in ("table", *_PER_TABLE):
            raise UsageError(f"{place}: {key} belongs in the section of a table")
        if name in written:
            raise UsageError(f"{place}: {key} is said above [defaults], too: keep one of them")
        written |= read_option(key, value, place)


def _patterns(value: Any, place: str) -> tuple[str, ...]:
    patterns = value.split(",") if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple) or not all(isinstance(p, str) for p in patterns):
        raise UsageError(f"{place}: expected patterns of SCHEMA.NAME, found {value!r}")
    if not all(pattern.strip() for pattern in patterns):
        raise UsageError(f"{place}: expected patterns such as 'public.*', found an empty one")
    return tuple(pattern.strip() for pattern in patterns)


def run_id_of(batch_id: str, spec: CopySpec) -> str:
    """The id of a table's run: the batch's and eight letters, the same in every execution."""
    named = f"{spec.source_name if spec.table else spec.query} {spec.target_ref}"
    return f"{batch_id}-{hashlib.sha256(named.encode()).hexdigest()[:8]}"


def batch_of(run_id: str, spec: CopySpec) -> str:
    """The id of the batch that a run is of; empty: it is of none."""
    batch_id = run_id.rpartition("-")[0]
    return batch_id if batch_id and run_id_of(batch_id, spec) == run_id else ""
