"""Types and their components, from the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import for_server, statement

# The object id of a type not created yet; it equals no type of another server.
UNKNOWN = 0

# Built-in types whose input functions always raise an error.
_REFUSING = {
    "pg_node_tree_in", "pg_ndistinct_in", "pg_dependencies_in", "pg_mcv_list_in",
    "brin_bloom_summary_in", "brin_minmax_multi_summary_in", "gtsvectorin", "gtrgm_in",
    "gbtreekey2_in", "gbtreekey4_in", "gbtreekey8_in", "gbtreekey16_in", "gbtreekey32_in",
    "gbtreekey_var_in", "ghstore_in", "ltree_gist_in", "_intbig_in",
}  # fmt: skip
# Their binary input rejects what their binary output produces for an empty vector or query.
_ONE_WAY = {"pg_catalog.int2vector", "pg_catalog.oidvector", "pg_catalog.tsquery"}
# The position in a row of types.sql of the object ids of component types.
_BELOW = 11


@dataclass(frozen=True, slots=True)
class DataType:
    """A type of one server."""

    oid: int
    schema: str
    name: str
    kind: str
    """base, array, enum, composite, domain, range, multirange or pseudo"""
    category: str
    """As in pg_type: S for strings."""
    sends: bool
    """Whether it has its own binary input and output; its components may still lack them."""
    accepts: bool
    """Whether its input function accepts values."""
    extension: str
    """The extension that it belongs to; empty without one."""
    text: str
    """The name without a modifier, in a form that this server resolves."""
    nullable: bool
    """False for a domain that is NOT NULL."""
    typmod: int = -1
    components: tuple[DataType, ...] = ()
    """The element of an array or vector, the base of a domain, the subtype of a range, the
    attributes of a composite.
    """
    labels: tuple[str, ...] = ()
    """The labels of an enum, the names of a composite's attributes."""

    @property
    def identity(self) -> str:
        """A name that identifies the same type on two servers."""
        if self.kind == "array":
            return f"{self.components[0].identity}[]"
        if self.extension:
            return f"extension:{self.extension}.{self.name}"
        return f"{self.schema}.{self.name}"

    @property
    def names_objects(self) -> bool:
        """Whether the binary form is the object id of something that the text names."""
        return self.schema == "pg_catalog" and self.kind == "base" and self.name.startswith("reg")

    @property
    def bare(self) -> DataType:
        """The type without its domains: the form in which values travel."""
        inner = self
        while inner.kind == "domain":
            (inner,) = inner.components
        return inner

    @property
    def binary(self) -> bool:
        """Whether the binary form, without its `embedded` ids, means the same on another server."""
        bare = self.bare
        if bare.kind == "pseudo" or not bare.sends:
            return False
        if bare.names_objects or bare.identity in _ONE_WAY:
            return False
        return all(part.binary for part in bare.components)

    @property
    def loadable(self) -> bool:
        return self.bare.accepts and all(part.loadable for part in self.bare.components)

    @property
    def embedded(self) -> tuple[int, ...]:
        """The object ids in the binary form, in order."""
        return tuple(self._embedded())

    def _embedded(self) -> Iterator[int]:
        bare = self.bare
        for part in bare.components:
            if bare.kind in ("array", "composite"):
                yield part.oid
            yield from part._embedded()

    def parts(self) -> Iterator[DataType]:
        """Yield the type and all its components."""
        yield self
        for part in self.components:
            yield from part.parts()


class Types:
    """The types of one server, each read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._types: dict[tuple[int, int], DataType] = {}
        self._texts: dict[tuple[int, int], str] = {}

    def read(self, pairs: Iterable[tuple[int, int]]) -> Sequence[tuple[DataType, str]]:
        """Return types by object id and modifier, each with the name that people write for it.

        Args:
            pairs: pairs of object id and modifier; -1 if there is no modifier.

        Raises:
            KeyError: a type no longer exists.
        """
        pairs = list(pairs)
        self.learn(pairs)
        return [self.get(*each) for each in pairs]

    def get(self, oid: int, typmod: int) -> tuple[DataType, str]:
        """Return a type that was learned before; see `read`."""
        kind = self._type(oid, typmod)
        element = _element(kind)
        text = self._texts[element.oid, element.typmod]
        return kind, f"{text}[]" if kind.kind == "array" else text

    def learn(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Read the types that still exist."""
        pairs = set(pairs)
        unknown = {oid for oid, _ in pairs}
        # Most are not arrays, so they need no array syntax.
        self._learn(unknown.difference(self._rows), pairs.difference(self._texts))
        while unknown := {
            below for row in map(self._rows.get, unknown) if row for below in row[_BELOW - 1]
        }:
            self._learn(unknown.difference(self._rows), set())
        elements = set()
        for each in pairs:
            with suppress(KeyError):  # dropped in the meantime
                element = _element(self._type(*each))
                elements.add((element.oid, element.typmod))
        self._learn(set(), elements.difference(self._texts))

    def _learn(self, oids: set[int], unnamed: set[tuple[int, int]]) -> None:
        if oids or unnamed:
            with self._connection.own_path():
                self._ask(oids, unnamed)

    def _ask(self, oids: set[int], unnamed: set[tuple[int, int]]) -> None:
        connection = self._connection
        if oids:
            rows = connection.execute(for_server(connection, "types"), {"oids": sorted(oids)})
        if unnamed:
            names, typmods = zip(*sorted(unnamed), strict=True)
            both = {"oids": list(names), "typmods": list(typmods)}
            texts = connection.execute(statement("written_types"), both)
            self._texts |= {(oid, typmod): text for oid, typmod, text in texts}
        if oids:
            self._rows |= {row[0]: row[1:] for row in rows.fetchall()}

    def _type(self, oid: int, typmod: int) -> DataType:
        if (oid, typmod) not in self._types:
            self._types[oid, typmod] = self._make(oid, typmod)
        return self._types[oid, typmod]

    def _make(self, oid: int, typmod: int) -> DataType:
        (
            schema, name, kind, category, sends, input_, extension, type_text, nullable,
            domain_typmod, below, typmods, labels,
        ) = self._rows[oid]  # fmt: skip
        if kind == "array":
            typmods, typmod = [typmod], -1
        elif kind == "domain":
            # A domain's modifier belongs to its base type.
            typmods, typmod = [domain_typmod], -1
        elif kind != "composite":
            typmods = [-1] * len(below)
        parts = tuple(self._type(*part) for part in zip(below, typmods, strict=True))
        if kind == "array":
            type_text = f"{parts[0].text}[]"
        return DataType(
            oid, schema, name, kind, category, sends,
            kind != "pseudo" and input_ not in _REFUSING,
            extension or "", type_text, nullable, typmod, parts, tuple(labels),
        )  # fmt: skip


def _element(kind: DataType) -> DataType:
    return kind.components[0] if kind.kind == "array" else kind
