"""The fit of a source column into a target column: its formats, cast and losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.backends.api.facts import Fit
from penstock.backends.postgresql.catalog.columns import data_type, unloadable_reason
from penstock.backends.postgresql.catalog.datatypes import UNKNOWN, DataType
from penstock.backends.postgresql.load.losses import cast_losses, modifier_losses
from penstock.backends.postgresql.session.statements import BINARY, TEXT
from penstock.model.tables import Column

# Object ids below this are assigned manually in the server's sources, and are the same everywhere.
# https://www.postgresql.org/docs/current/system-catalog-initial-data.html
FIRST_UNPINNED = 10000
# Its output, in COPY too, omits the XML declaration of a document; its cast to text does not.
# https://www.postgresql.org/docs/current/datatype-xml.html
XML = "pg_catalog.xml"
# https://www.postgresql.org/docs/current/catalog-pg-type.html#CATALOG-TYPCATEGORY-TABLE
_WITHOUT_TEXT = "BDGINTV"
_NO_ENCODING = (
    "the source database declares no encoding (SQL_ASCII): text that is not UTF-8 causes an error, "
    "here and in the other columns"
)


def fit_columns(source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
    """Judge how each source column fits its target column, both on PostgreSQL servers."""
    fits = [_fit(mine, theirs) for mine, theirs in zip(source, target, strict=True)]
    for place, column in enumerate(source):
        if column.traits["encoding"] == "SQL_ASCII" and _holds_text(data_type(column)):
            remarks = [fits[place].warning, _NO_ENCODING]
            fits[place] = replace(fits[place], warning="; ".join(filter(None, remarks)))
            break  # one is enough for all columns
    return fits


def _holds_text(type_: DataType) -> bool:
    return any(not part.components and part.category not in _WITHOUT_TEXT for part in type_.parts())


def _fit(mine: Column, theirs: Column) -> Fit:
    if reason := unloadable_reason(theirs):
        return Fit(reason=reason)
    source, target = data_type(mine), data_type(theirs)
    losses = list(dict.fromkeys(_losses(source, target)))
    warning = "; ".join([*losses, *dict.fromkeys(_risks(source, target))])
    if source.bare.identity == target.bare.identity == XML:
        return Fit(cast="text", formats=(TEXT,), warning=warning)
    possible = target.binary and theirs.traits["all_send"]
    if is_interchangeable(source, target):
        is_known = UNKNOWN not in target.embedded
        binary = possible and source.binary and is_known and source.embedded == target.embedded
        formats = (BINARY, TEXT) if binary else (TEXT,)
        return Fit(formats=formats, warning=warning, lossy=bool(losses))
    if difference := _attribute_difference(source, target):
        return Fit(reason=difference)
    # With the target's modifier: a modifier silently truncates where an assignment fails.
    binary = possible and all(UNKNOWN < oid < FIRST_UNPINNED for oid in target.embedded)
    return Fit(
        cast=target.bare.text,
        formats=(BINARY, TEXT) if binary else (TEXT,),
        warning=warning,
        lossy=bool(losses),
    )


def is_interchangeable(source: DataType, target: DataType) -> bool:
    """Whether a value of one type, as it appears in a stream, is a value of the other.

    Domains are ignored: the target checks its own. User-defined enums, composites and ranges may be
    in different schemas.
    """
    source, target = source.bare, target.bare
    if source.kind != target.kind:
        return False
    if source.kind == "array":
        return is_interchangeable(source.components[0], target.components[0])
    if source.kind in ("base", "pseudo"):
        return source.identity == target.identity
    # A user's type may share its name with a built-in or extension type, and still be a different
    # type.
    if source.name != target.name or (
        source.identity != target.identity and (_foreign(source) or _foreign(target))
    ):
        return False
    if source.kind == "composite" and source.labels != target.labels:
        return False
    return len(source.components) == len(target.components) and all(
        is_interchangeable(*pair) for pair in zip(source.components, target.components, strict=True)
    )


def _foreign(type_: DataType) -> bool:
    return bool(type_.extension) or type_.schema == "pg_catalog"


def _attribute_difference(source: DataType, target: DataType) -> str:
    """Return why two composites, or arrays of them, are not alike; empty for other types."""
    source, target = source.bare, target.bare
    while source.kind == target.kind == "array":
        source, target = source.components[0].bare, target.components[0].bare
    if source.kind != "composite" or target.kind != "composite":
        return ""
    return f"the attributes differ: {_attributes(source)}, {_attributes(target)}"


def _attributes(type_: DataType) -> str:
    pairs = zip(type_.labels, type_.components, strict=True)
    return f"({', '.join(f'{name} {part.text}' for name, part in pairs)})"


def _losses(source: DataType, target: DataType) -> Iterator[str]:
    """Yield the ways in which values may change."""
    for mine, theirs in _leaves(source, target):
        if not is_interchangeable(mine, theirs):
            yield from cast_losses(mine, theirs)
        yield from modifier_losses(mine, theirs)


def _risks(source: DataType, target: DataType) -> Iterator[str]:
    """Yield the reasons for which values may be rejected."""
    for mine, theirs in _leaves(source, target):
        if mine.kind == theirs.kind == "enum":
            missing = [label for label in mine.labels if label not in theirs.labels]
            if missing:
                yield f"the target lacks the label {', '.join(map(repr, missing))}"
        if theirs.names_objects:
            yield (
                "travels by name, which must exist in the target; a name without a schema is "
                "looked up on the target's search path"
            )
        elif mine.identity == XML and source.bare.kind != "base":
            yield "XML declarations (<?xml ...?>) within a value are dropped"
        elif theirs.identity == "pg_catalog.aclitem":
            yield "travels by name: the roles must exist in the target"


def _leaves(source: DataType, target: DataType) -> Iterator[tuple[DataType, DataType]]:
    """Yield the components of two types pairwise, if the types have the same structure."""
    source, target = source.bare, target.bare
    if (
        source.kind == target.kind
        and source.components
        and len(source.components) == len(target.components)
    ):
        for pair in zip(source.components, target.components, strict=True):
            yield from _leaves(*pair)
    else:
        yield source, target
