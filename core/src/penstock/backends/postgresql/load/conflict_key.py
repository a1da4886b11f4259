"""The unique key by which mode upsert finds its rows, and the privileges it needs."""

from __future__ import annotations

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.privileges import (
    UpsertRights,
    missing_grant,
    read_upsert_rights,
)
from penstock.backends.postgresql.catalog.unique_keys import read_unique_keys
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, name
from penstock.backends.sql.catalog.unique_keys import choose_key
from penstock.model.tables import TableRef
from penstock.spec.modes import Entry

_EXPECTED_KEY = (
    "primary key or unique index of {} that is valid, not deferrable, not partial and without "
    "expressions"
)


def conflict_columns(
    facts: TargetFacts, request: LoadRequest, table: TableRef | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the key, and warnings; both empty in other modes.

    Args:
        facts: the facts about the target.
        request: the request.
        table: a stand-in for the target's table, if that is still to be created.

    Raises:
        PlanningError: there is no usable unique key, or a privilege is missing.
    """
    if request.mode.entry is not Entry.BY_KEY:
        return (), ()
    with planning("target", f"table {request.target}"):
        copied = {pair.target for pair in request.pairs}
        if table is None:
            keys, rights = facts.unique_keys(request.target), facts.upsert_rights(request.target)
        else:
            keys = read_unique_keys(facts.connection, table)
            rights = read_upsert_rights(facts.connection, [table])[table]
        key = choose_key(request, keys, _EXPECTED_KEY)
        _check_privileges(facts, request, rights)
    warnings = []
    if key.distinct_null_columns:
        warnings.append(
            f"--mode upsert: {', '.join(key.distinct_null_columns)} may be NULL, and {key.index} "
            "treats NULLs as distinct: a row with a NULL there fails its partition"
        )
    fixed = sorted(copied.intersection(rights.identities).difference(key.names))
    if fixed:
        warnings.append(
            f"--mode upsert: {', '.join(fixed)} is GENERATED ALWAYS AS IDENTITY: existing rows "
            "keep their numbers"
        )
    return key.names, tuple(warnings)


def _check_privileges(facts: TargetFacts, request: LoadRequest, rights: UpsertRights) -> None:
    columns = {pair.target for pair in request.pairs}
    missing = [
        word
        for word, closed in (("SELECT", rights.unread), ("UPDATE", rights.fixed))
        if not columns.isdisjoint(closed)
    ]
    if missing:
        listed = ", ".join(missing)
        refused = f"may not {listed} on {request.target}"
        grant = f"{listed} ON {name(request.target)}"
        raise missing_grant(facts.connection, refused, "--mode upsert", grant)
    if not rights.may_stage:
        refused = f"may not create temporary tables in database {rights.database!r}"
        grant = f"TEMPORARY ON DATABASE {ident(rights.database)}"
        raise missing_grant(facts.connection, refused, "--mode upsert", grant)
