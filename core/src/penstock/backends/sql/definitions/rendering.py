"""A table's model in another dialect: what a copy creates, and statements for the rest.

Keys are not rendered here, because a mode may need one to find rows; see `TargetTables.extras`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.backends.api.facts import Siblings
from penstock.backends.sql.definitions.expression_texts import (
    check_text,
    default_text,
    value_text,
)
from penstock.backends.sql.dialect import Dialect
from penstock.model.plans import Step
from penstock.model.table_model import (
    ACTIONS,
    ARRAY,
    COMMENTS,
    DEFAULTS,
    ENUM,
    GENERATED,
    IDENTITIES,
    INCLUDED,
    INDEX_ORDERS,
    JSON,
    ON_UPDATES,
    PARTITIONING,
    CheckModel,
    ColumnModel,
    Expression,
    ForeignKeyModel,
    Identity,
    IndexModel,
    TableModel,
    omitted_check,
    omitted_comment,
    omitted_foreign_key,
    omitted_index,
    omitted_of_column,
)
from penstock.model.tables import NotCopied, Relation, TableRef

COMMENT = "-- "
"""The beginning of a remedy that is no statement to run as it is."""
_UNTRANSLATED = "translate the expression from the source's SQL"
_SHORT = ("boolean", "integer", "decimal", "float", "date", "time", "timestamp", "moment", "uuid")
"""Kinds of values that every index can hold."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A check or an index."""

    name: str
    """For a check that the database names, this may be its text."""
    text: str
    """From CHECK on; for an index, from its columns on, in parentheses."""
    omitted: NotCopied
    """The entry that replaces it if it is not created after all."""
    columns: tuple[str, ...] = ()
    kind: str = ""
    """For an index: `UNIQUE`, `FULLTEXT`, `SPATIAL`; empty for any other."""
    inline: str = ""
    """The check as part of CREATE TABLE."""
    statement: str = ""
    """Creates it on the table that is loaded, which may have another name than the target's."""

    def step(self, kind: str, table: TableRef, rank: int) -> Step:
        """Return the step that creates it after the load.

        If the server rejects it, the run finishes without it, and reports that.

        Args:
            kind: what messages call it, such as `index`.
            table: the table.
            rank: the place among the steps after the load.
        """
        what = f"create {kind} {self.name} of {table}"
        return Step(f"{kind} {self.name}", what, self.statement, True, rank, instead=self.omitted)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key of a rendered table, which is created once all tables are loaded."""

    name: str
    columns: tuple[str, ...]
    target: TableRef | None
    """The referenced table in the target; None if it is not copied with this one."""
    definition: str
    """The text from FOREIGN KEY on."""
    omitted: NotCopied
    itself: bool = False


@dataclass(slots=True)
class Rendered:
    """A table's definition in the target's dialect, and the parts that it does not have."""

    columns: dict[str, str] = field(default_factory=dict)
    """What follows the types of some columns."""
    numbered: list[str] = field(default_factory=list)
    """Columns that the server numbers."""
    sequences: dict[str, Identity] = field(default_factory=dict)
    """Columns that a sequence will number."""
    checks: list[Clause] = field(default_factory=list)
    indexes: list[Clause] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    """Statements, if comments are not part of others."""
    options: list[str] = field(default_factory=list)
    """What follows the columns in CREATE TABLE."""
    omitted: list[NotCopied] = field(default_factory=list)
    """The parts that are not created."""
    warnings: list[str] = field(default_factory=list)

    @staticmethod
    def omit_all(model: TableModel, table: TableRef) -> Iterator[NotCopied]:
        """Yield entries for every part of a model except its keys."""
        for item in replace(model, keys=()).unmade():
            yield replace(item, table=str(table))


@dataclass(frozen=True, slots=True)
class Rendering:
    """The rendering of one model.

    Args:
        dialect: the target's dialect.
        source: the table described by the model.
        table: the table to create, by its final name.
        kinds: what its columns hold, see `expressions`; nothing is created for columns not listed.
        siblings: the tables copied in the same batch.
        unindexed: columns that no index may contain.
        types: the types of the columns to create.
        guarded: columns whose own types reject what those of the source reject.
        computed: columns that the target computes, see `computed_columns`.
        at_once: everything is created before the load, so nothing that may reject rows of the
            source.
        bare: create nothing that slows down a load: no checks, no indexes.
        same_dialect: whether the source's text is in the target's own dialect.
        missing_columns: columns that such text may refer to and the table lacks.
        taken_names: whether an index cannot have a name, in databases where it shares the names of
            a schema with tables.
        loaded: the table that is loaded, if it is built beside the one it replaces.
    """

    dialect: Dialect
    source: Relation
    table: TableRef
    kinds: Mapping[str, str]
    siblings: Siblings = field(default_factory=Siblings)
    unindexed: Collection[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    guarded: Collection[str] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    at_once: bool = False
    bare: bool = False
    same_dialect: bool = False
    missing_columns: Collection[str] = ()
    taken_names: Callable[[str], bool] = field(default=lambda _: False)
    loaded: TableRef | None = None

    def of(self, model: TableModel) -> Rendered:
        return replace(self, kinds=_visible_kinds(self.kinds, model))._of(model)

    def _of(self, model: TableModel) -> Rendered:
        rendered = Rendered()
        for column in model.columns:
            if column.name in self.kinds:
                self._column(column, rendered)
        for check in model.checks:
            self._check(check, rendered)
        for index in model.indexes:
            self._index(index, rendered)
        for foreign_key in model.foreign_keys:
            self._foreign_key(foreign_key, rendered)
        if model.comment:
            self._comment("", model.comment, omitted_comment(model.comment), rendered)
        if model.partitioning:
            remedy = f"ALTER TABLE {self._table_name} {model.partitioning};" * self.same_dialect
            rendered.omitted.append(NotCopied(PARTITIONING, model.partitioning, remedy))
        # Parts left out for other columns stay left out, whatever the table has.
        rendered.omitted = [replace(item, table=str(self.table)) for item in rendered.omitted]
        return rendered

    @property
    def _table_name(self) -> str:
        return self.dialect.table(self.table)

    # Columns

    def _column(self, column: ColumnModel, rendered: Rendered) -> None:
        name, kind = column.name, self.kinds[column.name]
        omitted = omitted_of_column(column)
        suffix = ""
        type_ = self.types.get(name, "")
        if column.identity is not None:
            suffix = self._numbered(column, kind, omitted[IDENTITIES], rendered)
        elif column.default is not None:
            # In a literal, JSON and an enum label are text.
            content = kind or "text" * (column.type.kind in (JSON, ENUM))
            default = column.default.text
            if not self.same_dialect:
                default = self._default(column.default, content, type_)
            suffix = f"DEFAULT {default}" if default else ""
            if not default:
                text = column.default.text
                remedy = self.dialect.default_set(self.table, name, text) or self._only_with_table(
                    f"{self.dialect.ident(name)} {type_} DEFAULT {text}"
                )
                rendered.omitted.append(replace(omitted[DEFAULTS], remedy=self._foreign(remedy)))
        if column.on_update is not None:
            moment = column.on_update.text
            if not self.same_dialect:
                moment = self._default(column.on_update, kind, type_)
            more = self.dialect.set_on_update(moment) if moment else ""
            suffix = f"{suffix} {more}".strip()
            if not more:
                rendered.omitted.append(omitted[ON_UPDATES])
        if column.generated is not None:
            computed = self.computed.get(name)
            suffix = self.dialect.generated_clause(computed) if computed else suffix
            if not computed:
                source_text = column.generated.expression.text
                remedy = self.dialect.generated_statement(
                    self.table, name, column.native, source_text
                )
                rendered.omitted.append(replace(omitted[GENERATED], remedy=self._foreign(remedy)))
        if column.comment:
            inline = self.dialect.comment_clause(column.comment)
            suffix = f"{suffix} {inline}".strip()
            if not inline:
                self._comment(name, column.comment, omitted[COMMENTS], rendered)
        if suffix:
            rendered.columns[name] = suffix
        if not self.same_dialect and (test := self._type_check(column, kind)):
            self._check(CheckModel("", Expression("", test)), rendered)

    def _numbered(
        self, column: ColumnModel, kind: str, omitted: NotCopied, rendered: Rendered
    ) -> str:
        name, identity, dialect = column.name, column.identity, self.dialect
        assert identity is not None
        suffix, number = "", kind in ("integer", "decimal")
        if number and dialect.has_sequences and not self.at_once:
            rendered.sequences[name] = identity
        elif number and (not column.nullable or dialect.numbers_nullable):
            # Most databases that number a column themselves reject NULL in it.
            suffix = dialect.numbering_clause(identity.first, identity.step)
        if suffix:
            rendered.numbered.append(name)
        if suffix or name in rendered.sequences:
            if identity.always and not dialect.refuses_numbers:
                rendered.omitted.append(replace(omitted, name=f"{name}: ALWAYS"))
            return suffix
        type_ = self.types.get(name, "")
        remedy = dialect.identity_statements(self.table, name, type_, identity)
        rendered.omitted.append(replace(omitted, remedy=_terminated(remedy)))
        return ""

    def _type_check(self, column: ColumnModel, kind: str) -> list[object] | None:
        """Return the tree of a check for values that only the source's type rejects."""
        column_node = ["column", column.name]
        if column.name in self.guarded:
            return None
        if column.type.kind == ENUM and column.type.labels and kind == "text":
            return ["in", column_node, *(["value", "text", label] for label in column.type.labels)]
        if column.type.unsigned and kind in ("integer", "decimal", "float"):
            return [">=", column_node, ["value", "number", "0"]]
        return None

    def _default(self, expression: Expression, kind: str, type_: str) -> str:
        """Return the default; empty if the target has no equivalent."""
        if expression.meaning is None:
            return ""
        text = default_text(expression.meaning, kind, self.dialect)
        return self.dialect.fitted_default(text, type_) if text is not None else ""

    def _comment(self, column: str, text: str, omitted: NotCopied, rendered: Rendered) -> None:
        """Add a comment on a column; without a column, on the table."""
        option = "" if column else self.dialect.table_comment_option(text)
        statement = self.dialect.comment_statement(self.loaded or self.table, column, text)
        if option:
            rendered.options.append(option)
        elif statement:
            rendered.comments.append(statement)
        else:
            rendered.omitted.append(omitted)

    # Constraints and indexes

    def _check(self, check: CheckModel, rendered: Rendered) -> None:
        text = None
        if self.same_dialect and self._holds(check.test.text):
            text = check.test.text
        elif check.enforced and check.test.meaning is not None:
            text = check_text(check.test.meaning, self.kinds, self.dialect)
        omitted = omitted_check(check)
        if text is None:
            remedy = self._foreign(self._check_remedy(check.name, check.test.text))
            rendered.omitted.append(replace(omitted, remedy=remedy))
            return
        if not check.test.text:
            omitted = replace(omitted, name=text)
        name = check.name
        if self.dialect.checks_with_table and not name:
            name = f"{self.table.name}_check{len(rendered.checks) + 1}"
        called = self._accepted_name(name, text, rendered, is_constraint=True) if name else ""
        omitted = self._with(omitted, self._check_remedy(called, text))
        tested = text if self.same_dialect else self.dialect.test(text)
        clause_text = f"CHECK ({tested})" + " NOT ENFORCED" * (not check.enforced)
        inline = f"CONSTRAINT {self.dialect.ident(called)} {clause_text}"
        statement = self.dialect.check_statement(self.loaded or self.table, called, text)
        clause = Clause(called or text, clause_text, omitted, inline=inline, statement=statement)
        risky = self.at_once and not self.same_dialect
        if risky or self.bare or not self.dialect.has_checks:
            rendered.omitted.append(clause.omitted)
        else:
            rendered.checks.append(clause)

    def _check_remedy(self, name: str, text: str) -> str:
        if not self.dialect.has_checks:
            return ""
        statement = self.dialect.check_statement(self.table, name, text)
        return statement or self._only_with_table(f"CHECK ({text})")

    def _only_with_table(self, clause: str) -> str:
        """Return the reason for no statement, if only a new table accepts the clause."""
        return f"{COMMENT}in CREATE TABLE {self._table_name}: {clause}"

    def _index(self, index: IndexModel, rendered: Rendered) -> None:
        omitted, dialect = omitted_index(index), self.dialect
        called = self._free_name(self._accepted_name(index.name, "", rendered), rendered)
        kind = "UNIQUE" if index.unique else dialect.index_kinds.get(index.method, "")
        create = f"CREATE {f'{kind} INDEX'.lstrip()} {dialect.ident(called)} ON"
        remedy = f"{create} {self._table_name}"
        statement = f"{create} {dialect.table(self.loaded or self.table)}"
        if self.same_dialect:
            omitted = self._with(omitted, f"{remedy} {index.text}" * dialect.has_indexes)
            clause = Clause(
                called,
                index.text,
                omitted,
                index.columns,
                kind,
                statement=f"{statement} {index.text}",
            )
            if dialect.has_indexes and self._holds(index.text):
                rendered.indexes.append(clause)
            else:
                rendered.omitted.append(omitted)
            return
        whole = bool(index.columns) and self.kinds.keys() >= set(index.columns)
        plain, test = whole and not index.method, None
        if plain and index.predicate is not None:
            if index.predicate.meaning is not None and dialect.has_partial_indexes:
                test = check_text(index.predicate.meaning, self.kinds, dialect)
            plain = test is not None
        if not plain or not dialect.has_indexes:
            rendered.omitted.append(replace(omitted, remedy=self._foreign_index(index, remedy)))
            return
        descending = index.descending if dialect.descends else ()
        parts = [dialect.index_part(each, self.types.get(each, "")) for each in index.columns]
        begins = parts != list(map(dialect.ident, index.columns))
        orders = [" DESC" * (name in descending) for name in index.columns]
        text = f"({', '.join(map(''.join, zip(parts, orders, strict=True)))})"
        included = index.included if dialect.includes else ()
        if included:
            text += f" INCLUDE ({', '.join(map(dialect.ident, included))})"
        if test is not None:
            text += f" WHERE {test}"
        omitted = self._with(omitted, f"{remedy} {text}")
        clause = Clause(called, text, omitted, index.columns, kind, statement=f"{statement} {text}")
        kept_out = set(self.unindexed) & set(index.columns)
        risky = any(self.kinds[each] not in _SHORT for each in index.columns) or index.unique
        # Texts may be equal in their beginnings only.
        if kept_out or self.bare or (self.at_once and risky) or (begins and index.unique):
            rendered.omitted.append(clause.omitted)
            return
        rendered.indexes.append(clause)
        for kind, all_parts, kept_parts in (
            (INDEX_ORDERS, index.descending, descending),
            (INCLUDED, index.included, included),
        ):
            if len(kept_parts) < len(all_parts):
                rendered.omitted.append(NotCopied(kind, f"{index.name}: {', '.join(all_parts)}"))

    def _foreign_index(self, index: IndexModel, remedy: str) -> str:
        """Return what would create an index with an expression or method of another system.

        Args:
            index: the index.
            remedy: the statement up to the columns.
        """
        dialect = self.dialect
        if not dialect.has_indexes:
            return ""
        whole = bool(index.columns) and self.kinds.keys() >= set(index.columns)
        text = index.text
        if whole and index.predicate is None:
            text = f"({', '.join(map(dialect.ident, index.columns))})"
            if index.method in dialect.index_kinds or not index.method:
                return _terminated(f"{remedy} {text}")
        if index.method:  # another method would create an index for other queries
            return _comment(f"the source's {index.method.upper()} index {index.name}: {text}")
        return self._foreign(f"{remedy} {text}")

    def _foreign(self, statement: str) -> str:
        """Return a statement with an expression of the source, as a comment if it is another's."""
        if not statement or self.same_dialect:
            return _terminated(statement)
        return _comment(f"{_UNTRANSLATED}: {statement.removeprefix(COMMENT)};")

    def _foreign_key(self, foreign_key: ForeignKeyModel, rendered: Rendered) -> None:
        dialect, omitted = self.dialect, omitted_foreign_key(foreign_key)
        itself = foreign_key.target == self.source
        target = self.table if itself else self.siblings.targets.get(foreign_key.target)
        definition, lacks = referring(dialect, foreign_key, target or foreign_key.target)
        called = self._accepted_name(foreign_key.name, definition, rendered, is_constraint=True)
        remedy = dialect.foreign_key_statement(self.table, called, definition)
        if not remedy and dialect.has_foreign_keys:
            omitted = self._with(omitted, self._only_with_table(definition))
        else:
            omitted = self._with(omitted, remedy)
        is_created = self.kinds.keys() >= set(foreign_key.columns) and target is not None
        if is_created and remedy and foreign_key.checked and not self.at_once:
            rendered.foreign_keys.append(
                ForeignKey(called, foreign_key.columns, target, definition, omitted, itself)
            )
            rendered.omitted += lacks
        else:
            rendered.omitted.append(omitted)

    def _holds(self, text: str) -> bool:
        """Whether all columns exist that a text in the target's own dialect refers to."""
        return not any(self.dialect.ident(name) in text for name in self.missing_columns)

    def _with(self, omitted: NotCopied, remedy: str) -> NotCopied:
        return replace(omitted, remedy=_terminated(remedy), table=str(self.table))

    def _free_name(self, name: str, rendered: Rendered) -> str:
        """Return an index name that no other relation has, with a number if need be."""
        candidate, count = name, 0
        mine = {index.name for index in rendered.indexes}
        while self.taken_names(candidate) or (count and candidate in mine):
            count += 1
            suffix = f"_{count}"
            room = self.dialect.longest_name - len(suffix)
            candidate = name.encode()[:room].decode(errors="ignore") + suffix
        if candidate != name:
            rendered.warnings.append(
                f"index {name} is named {candidate}, because the name is taken in schema "
                f"{self.table.schema}"
            )
        return candidate

    def _accepted_name(
        self, name: str, text: str, rendered: Rendered, *, is_constraint: bool = False
    ) -> str:
        """Return a name that the target accepts.

        Args:
            name: the name in the source.
            text: the text that identifies the object, for a digest.
            rendered: the rendered table, for warnings.
            is_constraint: whether it is a constraint's name, which in some databases belongs to
                its table, and then need not contain the table's name.
        """
        keeps_name = self.same_dialect or (is_constraint and self.dialect.constraints_by_table)
        word = rf"(?<![a-z0-9]){re.escape(self.table.name)}(?![a-z0-9])"
        if not keeps_name and not re.search(word, name):
            name = f"{self.table.name}_{name}"
        if is_constraint and not keeps_name and self._may_be_of_another(name):
            name += f"_{hashlib.sha256(f'{self.table.name}.{name}'.encode()).hexdigest()[:8]}"
        called = shortened(name, self.dialect.longest_name, text)
        if called != name:
            rendered.warnings.append(
                f"{name} is shortened to {called}: names have at most {self.dialect.longest_name} "
                "bytes"
            )
        return called

    def _may_be_of_another(self, name: str) -> bool:
        """Whether a constraint of a table copied with this one may get the same name.

        `x_id` of a table `a` and `id` of a table `a_x` would.
        """
        mine = f"{self.table.name}_"
        return any(
            each.name.startswith(mine) and name.startswith(f"{each.name}_")
            for each in self.siblings.targets.values()
        )


def referring(
    dialect: Dialect, foreign_key: ForeignKeyModel, target: TableRef
) -> tuple[str, list[NotCopied]]:
    """Return a foreign key from FOREIGN KEY on, and the parts that the database does not support.

    Args:
        dialect: the dialect of the statement.
        foreign_key: the foreign key, as the source has it.
        target: the table to reference.
    """
    listed = ", ".join(map(dialect.ident, foreign_key.columns))
    referenced = ", ".join(map(dialect.ident, foreign_key.referenced))
    words = [f"FOREIGN KEY ({listed}) REFERENCES {dialect.table(target)} ({referenced})"]
    lacks = []
    for event in ("DELETE", "UPDATE"):
        action = foreign_key.on_delete if event == "DELETE" else foreign_key.on_update
        action_text = dialect.referential(event, action)
        words += [f"ON {event} {action_text}"] * bool(action_text)
        if action and not action_text:
            lacks.append(NotCopied(ACTIONS, f"{foreign_key.name}: ON {event} {action}"))
    if foreign_key.deferrable:
        deferrable = "DEFERRABLE" + " INITIALLY DEFERRED" * foreign_key.deferred
        if dialect.defers:
            words.append(deferrable)
        else:
            lacks.append(NotCopied(ACTIONS, f"{foreign_key.name}: {deferrable}"))
    return " ".join(words), lacks


def _visible_kinds(kinds: Mapping[str, str], model: TableModel) -> dict[str, str]:
    """Return what columns hold, leaving out lists and JSON that are plain text in the target."""
    hidden = {each.name for each in model.columns if each.type.kind in (ARRAY, JSON)}
    return {
        name: "" if name in hidden and not kind.startswith("list") else kind
        for name, kind in kinds.items()
    }


def computed_columns(
    model: TableModel, kinds: Mapping[str, str], dialect: Dialect
) -> dict[str, str]:
    """Return columns that the target can compute as the source does, and their expressions.

    Args:
        model: the model of the table.
        kinds: what the columns of the target's table hold, see `expressions`.
        dialect: the dialect of the statement.
    """
    if not dialect.generated_clause("1"):
        return {}
    # Not from one another, which few databases support.
    kinds = _visible_kinds(kinds, model)
    stored = {each.name for each in model.columns if each.generated is None}
    plain = {name: kind for name, kind in kinds.items() if name in stored}
    expressions = {}
    for column in model.columns:
        meaning = column.generated.expression.meaning if column.generated is not None else None
        if meaning is None or column.name not in kinds:
            continue
        text = value_text(meaning, kinds[column.name], plain, dialect)
        if text is not None:
            expressions[column.name] = text
    return expressions


def shortened(name: str, max_bytes: int, text: str = "") -> str:
    """Shorten a name to a maximum number of bytes: its beginning, and a digest of the rest.

    Args:
        name: the name.
        max_bytes: the maximum number of bytes.
        text: distinguishes it from other names with the same beginning.
    """
    if len(name.encode()) <= max_bytes:
        return name
    digest = "_" + hashlib.sha256(f"{name}{text}".encode()).hexdigest()[:8]
    return name.encode()[: max_bytes - len(digest)].decode(errors="ignore") + digest


def steps_of(
    rendered: Rendered, table: TableRef, first: int = 0, *, with_table: bool = False
) -> Iterator[Step]:
    """Yield the steps that create checks and indexes after the load.

    Args:
        rendered: the table in the target's dialect.
        table: the table.
        first: the rank of the first step. Each has its own rank, because they lock the table.
        with_table: whether checks were created with the table.
    """
    clauses: Sequence[tuple[str, Clause]] = [
        *(("check", clause) for clause in rendered.checks if not with_table),
        *(("index", clause) for clause in rendered.indexes),
    ]
    for rank, (kind, clause) in enumerate(clauses, first):
        yield clause.step(kind, table, rank)


def with_final_name(step: Step, loaded: TableRef, table: TableRef) -> Step:
    """Return a step of `steps_of` for when the loaded table has its final name.

    Args:
        step: the step.
        loaded: the name of the table until then.
        table: its final name.
    """
    assert step.instead is not None, "each can be left out"
    statement = step.instead.remedy.removesuffix(";")
    return replace(step, name=step.name.replace(str(loaded), str(table)), statement=statement)


def _comment(text: str) -> str:
    """Return a text as a comment of one line."""
    return COMMENT + " ".join(text.split("\n"))


def _terminated(statement: str) -> str:
    return f"{statement};" if statement else ""
