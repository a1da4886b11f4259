"""Each line of `kinds.txt`: a value of each kind, read from a table and written to one."""

from __future__ import annotations

import re

import pyarrow as pa

from penstock import plan
from penstock.backends.shared.values.arrow import arrow_type
from penstock.spec.modes import MODES

from .copying import Pair
from .rows import KINDS


def test_each_kind_is_read_from_a_table(outward: Pair) -> None:
    rows = outward.every_kind
    assert len(rows.columns) == len(outward.mine.types) + 1
    outward.make(rows)
    outward.copy()
    outward.check(rows)

    mine, spec = outward.mine, outward.spec()
    backend = mine.backend
    source = backend.source(backend.resolve(spec.source, {}, "--source"))
    try:
        found = source.in_arrow(spec.relation, source.columns(spec.relation))
    finally:
        source.close()
    expected = {name: mine.types[kind].arrow for name, kind in rows.columns.items()}
    assert {column.name: str(arrow_type(column)) for column in found} == expected


def test_each_kind_is_written_to_a_table(inward: Pair) -> None:
    rows = inward.every_kind
    assert len(rows.columns) == len(inward.theirs.types) + 1
    inward.make(rows)
    kinds = inward.theirs.types
    expected = {name: kinds[kind].canonical for name, kind in rows.columns.items()}
    assert {pair.target: pair.canonical for pair in plan(inward.spec()).pairs} == expected
    verified = "checksums" if inward.hashes_texts else "counts"
    finished = inward.copy(verify=verified)
    inward.check(rows)
    inward.verify(finished)


def test_each_kind_is_written_to_a_created_table(inward: Pair) -> None:
    target = inward.theirs.backend.target_capabilities
    if not target.creating_modes:
        return
    rows = inward.every_kind
    inward.mine.fill(rows)
    *_, mode = (mode for mode in target.creating_modes if mode in MODES.values())
    inward.copy(mode=mode.name)
    inward.check(rows)
    kinds = inward.theirs.types
    with inward.target() as catalog:
        found = {column.name: column.type for column in catalog.columns(inward.spec().target_ref)}
    assert found == {name: kinds[kind].new_column for name, kind in rows.columns.items()}


def test_usual_types_agree_with_the_kinds(outward: Pair) -> None:
    """A kind's type in record batches is the same in every system, except for element names."""
    for kind, line in outward.mine.types.items():
        assert re.sub("list<l:", "list<item:", line.arrow) == str(KINDS[kind].arrow)
        assert isinstance(KINDS[kind].arrow, pa.DataType)
