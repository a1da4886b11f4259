"""What a person asks for in a batch: which tables, and how to copy each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import UsageError
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec, read_options
from penstock.spec.degrees import AUTO
from penstock.spec.ids import MAX_RUN_ID, check_run_id

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
        if not self.tables and not self.entries:
            raise UsageError(
                f"{self.origin}: expected tables: --tables PATTERN, or [[table]] in the file; "
                "found none"
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
        self.named_tables()

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any], origin: str) -> BatchSpec:
        """Read options as a TOML file or a command line gives them.

        Raises:
            UsageError: an unknown or missing option, or a value of the wrong type.
        """
        written = {name.replace("-", "_"): value for name, value in raw.items()}
        entries = written.pop("table", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise UsageError(f"{origin}: table: expected [[table]] sections, found {entries!r}")
        own = {name: written.pop(name) for name in _OWN if name in written}
        for name in ("tables", "exclude"):
            if name in own:
                own[name] = _patterns(own[name], f"{origin}: {name}")
        for name in _PER_TABLE:
            if name in written:
                raise UsageError(f"{origin}: {name} belongs in a [[table]] section")
        defaults = read_options(written, origin)
        missing = [f"--{name}" for name in ("source", "target") if not defaults.get(name)]
        if missing:
            raise UsageError(f"{origin}: expected {', '.join(missing)}; found none")
        common = {name: defaults.pop(name) for name in _COMMON if name in defaults}
        return cls(entries=tuple(entries), defaults=defaults, origin=origin, **common, **own)

    def named_tables(self) -> list[CopySpec]:
        """The specs of the tables that have sections of their own.

        Raises:
            UsageError: an option is unknown, missing or wrong, or a table is named twice.
        """
        specs = []
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
        self._check_targets(specs)
        return specs

    def specs(
        self, found: Sequence[TableRef], with_schemas: Callable[[CopySpec], CopySpec]
    ) -> list[CopySpec]:
        """A spec for every table: the named ones, and those that patterns have found.

        Parameters:
            with_schemas: finds the schemas of tables that are named without one.

        Raises:
            UsageError: two tables would go into one.
        """
        named = [with_schemas(spec) for spec in self.named_tables()]
        known = {spec.relation for spec in named}
        targets = {spec.target_ref for spec in named}
        others = [
            self._spec({"table": str(table)}, self.origin) for table in found if table not in known
        ]
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

    def _spec(self, entry: Mapping[str, Any], place: str) -> CopySpec:
        options = {**self.defaults, **{n.replace("-", "_"): v for n, v in entry.items()}}
        options |= {"source": self.source, "target": self.target}
        options["control_schema"] = self.control_schema
        options |= {name: value for name in _OF_POOL if (value := getattr(self, name)) is not None}
        if self.target_schema and "target_table" not in options and "table" in options:
            source = TableRef.parse(str(options["table"]), f"{place}: table")
            options["target_table"] = str(TableRef(self.target_schema, source.name))
        return CopySpec.from_mapping(options, place)


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
