"""The plan of a load: the table to load, and the steps before and after."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.existing_tables import TableLink
from penstock.backends.postgresql.catalog.privileges import missing_grant
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.ddl.foreign_keys import foreign_key_steps
from penstock.backends.postgresql.ddl.links import relink_steps, unlink_steps
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.conflict_key import conflict_columns
from penstock.backends.postgresql.load.sequences import advance_existing
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import DIALECT, ident, name
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.table_model import PARTITIONING, TableDefinition
from penstock.model.tables import NotCopied, TableRef
from penstock.spec.modes import MODES, Emptying, Ending, Entry, Table
from penstock.spec.source_changes import HARD


def plan_load(facts: TargetFacts, request: LoadRequest) -> LoadPlan:
    """Plan the load of one table.

    Raises:
        PlanningError: see `TargetCatalog.plan_load`.
    """
    if request.mode.ending is Ending.MERGE:
        from penstock.backends.postgresql.new_tables.night_plan import PostgresStageSteps  # noqa: PLC0415 - as above
        from penstock.backends.sql.loads.night_plan import plan_night  # noqa: PLC0415 - as above

        plan = plan_load(facts, replace(request, mode=MODES[request.mode.name], changes=()))
        _check_staging(facts, request)
        return plan_night(PostgresStageSteps(request, plan.table), plan)
    if request.definition is not None:
        return _plan_created(facts, request, request.definition)
    if request.mode.table is Table.BESIDE:
        from penstock.backends.postgresql.new_tables.swap import plan_swap  # noqa: PLC0415 - as above

        plan = plan_swap(facts, request)
        if request.changes:
            from penstock.backends.postgresql.load.drift import plan_with_changes  # noqa: PLC0415 - seldom

            plan = plan_with_changes(plan, request.target, request.changes)
        return plan
    ref = request.target
    risks = facts.check_loadable(ref, request.mode)
    with planning("target", f"table {ref}"):
        tree = facts.tree(ref)
        # Tables that inherit from it are separate, and left alone.
        only = tree[0].kind == "r" and tree[0].inherits and not tree[0].hypertable
        _check_heirs(facts, request)
        before: list[Step] = []
        if request.changes:
            from penstock.backends.postgresql.load.drift import scripts  # noqa: PLC0415 - seldom

            before += scripts(ref, request.changes)
        after: list[Step] = []
        warnings: list[str] = []
        linked = _keys_to_drop(facts, request)
        before += unlink_steps(linked)
        if ref in request.siblings.filled:
            _drop_own_keys(facts, ref, before, after)
        if request.mode.emptying is Emptying.TRUNCATE and (
            not linked or len(linked) < len(_referring(facts, ref))
        ):
            _check_referenced(facts, ref)
        before += steps.emptying(request.mode.emptying, ref, only=only)
        if request.unlogged or request.indexes == "defer":
            from penstock.backends.postgresql.load import temporary_changes as while_loading  # noqa: PLC0415 - seldom

            if request.unlogged:
                while_loading.unlog(facts, ref, before, after)
            if request.indexes == "defer":
                while_loading.defer_indexes(facts, ref, before, after, warnings)
    stored = [relation for relation in tree if relation.kind == "r"]
    unlogged = [relation for relation in stored if relation.persistence == "u"]
    if unlogged and len(unlogged) < len(stored) and request.mode.only_adds:
        raise PlanningError(
            f"--mode append: expected the child tables of {ref} to be all logged or all unlogged, "
            f"found some unlogged, such as {unlogged[0].ref}: a crash would empty only these"
        )
    key, remarks = conflict_columns(facts, request)
    with planning("target", f"sequences of {ref}"):
        advanced, refused = advance_existing(facts, request)
    return LoadPlan(
        replace(ref, only=only),
        (*before, *after, *advanced),
        conflict_columns=key,
        # Children attached by the run are logged, even if others are not.
        volatile=request.unlogged or (bool(unlogged) and request.mode.entry is not Entry.ATTACH),
        warnings=(*risks, *warnings, *remarks, *refused),
        links=tuple(relink_steps(linked)),
    )


def _referring(facts: TargetFacts, ref: TableRef) -> list[TableLink]:
    return [link for link in facts.links(ref) if link.kind == "foreign key"]


def _drop_own_keys(
    facts: TargetFacts, ref: TableRef, before: list[Step], after: list[Step]
) -> None:
    """Drop the table's foreign keys to itself before the load, and add them again after it."""
    for table in facts.definitions(ref):
        for constraint in table["constraints"]:
            if constraint["kind"] != "f" or constraint["inherited"]:
                continue
            if not constraint["references_itself"]:
                continue
            of, label = TableRef(table["schema"], table["name"]), constraint["name"]
            drop = f"ALTER TABLE IF EXISTS {name(of)} DROP CONSTRAINT IF EXISTS {ident(label)}"
            step_id = f"unlink {table['oid']} {label}"
            before.append(steps.before(step_id, f"drop foreign key {label} of {of}", drop))
            after += foreign_key_steps(table, constraint, of, of)


def _keys_to_drop(facts: TargetFacts, request: LoadRequest) -> list[TableLink]:
    """Return the foreign keys to drop while tables that reference each other are loaded."""
    if not request.siblings.filled:
        return []
    links = _referring(facts, request.target)
    return [link for link in links if link.root in request.siblings.filled]


def _check_staging(facts: TargetFacts, request: LoadRequest) -> None:
    """Check that the user may stage and delete rows.

    Raises:
        PlanningError: the user may not create the stage, or delete rows; names the GRANT that would
            help.
    """
    ref = request.target
    facts.creatable(ref.schema, "the stage beside the target")
    if request.deletes.how != HARD or request.definition is not None:
        return
    with planning("target", f"table {ref}"):
        rights = facts.table_rights(ref)
    if "DELETE" in rights.lacking:
        missing = f"may not DELETE on {ref} (owner {rights.owner!r})"
        grant = f"DELETE ON {name(ref)}"
        raise missing_grant(facts.connection, missing, f"--deletes {HARD}", grant)


def _plan_created(
    facts: TargetFacts, request: LoadRequest, definition: TableDefinition
) -> LoadPlan:
    from penstock.backends.postgresql.new_tables.missing_table import plan_missing  # noqa: PLC0415 - as above
    from penstock.backends.postgresql.new_tables.recreate import plan_recreate  # noqa: PLC0415 - as above

    facts.claimed_names.begin(request.target, request.siblings.targets)
    plan = plan_recreate if request.mode.table is Table.RECREATED else plan_missing
    if definition.dialect == DIALECT:
        of_children = definition.native["of_partitions"]
        omitted_before = [
            NotCopied(kind, label, "", str(request.target)) for kind, label in of_children
        ]
        text = definition.model.partitioning
        if text and definition.native["tables"][0]["partition_key"] is None:
            remedy = f"{text} of {request.target}: --mode recreate --partitioning keeps it"
            omitted_before.insert(0, NotCopied(PARTITIONING, text, remedy, str(request.target)))
        return plan(facts, request, definition.native, omitted_before)
    from penstock.backends.postgresql.new_tables.other_systems import read_translated  # noqa: PLC0415 - it needs Arrow

    translated = read_translated(facts, request, definition)
    if request.mode.table is not Table.RECREATED:
        more = [step.statement for step in translated.late.steps(request.run_id, request.target)]
        return plan_missing(facts, request, translated.content, translated.omitted, more)
    return plan_recreate(facts, request, translated.content, translated.omitted, translated.late)


def _check_heirs(facts: TargetFacts, request: LoadRequest) -> None:
    """Check a source with inheritance children.

    Raises:
        PlanningError: the source and the target both consist of several tables.
    """
    if not request.heirs or facts.tree(request.target)[0].hypertable:
        return
    if children := facts.heirs(request.target):
        raise PlanningError(
            f"source: {request.source} is read with the rows of its inheritance children "
            f"({', '.join(map(str, request.heirs))}), and {request.target} has children of its own "
            f"in the target ({', '.join(map(str, children))}); copy all of these tables, each into "
            "its own, as copy-all does: with --descendants exclude, only the rows of "
            f"{request.source} itself are copied, and none of its children's"
        )


def _check_referenced(facts: TargetFacts, ref: TableRef) -> None:
    """Check that no other table references this one.

    Raises:
        PlanningError: other tables' foreign keys reference this table, so it cannot be truncated.
    """
    keys = facts.references(ref)
    if keys:
        raise PlanningError(
            f"--mode truncate: {ref} cannot be truncated, because foreign keys of other tables "
            f"reference it: {', '.join(keys)}; drop them first"
        )
