"""Whether the table that a run loads is still the one that it was prepared for."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql
from psycopg.types.json import Jsonb

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.statements import quoted, statement
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.plans import GIVEN
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES, mode_names


def note_target(connection: Connection, schema: str, run_id: str, table: TableRef) -> None:
    """Keep what the table is known by, in the run's row."""
    name = quoted(table).as_string(connection)
    found = connection.execute(statement("storage"), {"table": name}).fetchone()
    set_target(connection, schema, run_id, found[0] if found else None)


def set_target(
    connection: Connection, schema: str, run_id: str, state: dict[str, object] | None
) -> None:
    connection.execute(
        sql.SQL("UPDATE {} SET target_state = %s WHERE run_id = %s").format(
            sql.Identifier(schema, "run")
        ),
        [None if state is None else Jsonb(state), run_id],
    )


def note_rewritten(connection: Connection, schema: str, run_id: str) -> None:
    """Keep where rows are stored that this transaction has written anew; those of other tables may
    be written anew at the same time, by steps of the run that have not committed yet."""
    names = {"schema": sql.Identifier(schema)}
    found = connection.execute(statement("rewritten").format(**names), [run_id]).fetchall()
    for (oid,) in found:
        connection.execute(
            statement("note_rewritten").format(**names),
            {"run_id": run_id, "part": str(oid), "oid": oid},
        )


def find_change(connection: Connection, schema: str, run_id: str) -> tuple[str, bool] | None:
    """What has become of the table since the run was prepared, and whether it is the same table all
    the same, whose rows were written anew or removed; None where nothing has."""
    found = connection.execute(
        statement("changed").format(schema=sql.Identifier(schema)), {"run_id": run_id}
    ).fetchone()
    return (found[0], found[1]) if found else None


def check_target(connection: Connection, schema: str, run_id: str) -> None:
    """
    Raises:
        TargetChanged: the table is another one, or was emptied or written anew since.
    """
    found = find_change(connection, schema, run_id)
    if found is not None:
        raise target_changed(connection, schema, run_id, found[0])


def target_changed(connection: Connection, schema: str, run_id: str, what: str) -> TargetChanged:
    found = connection.execute(
        statement("changed_by").format(schema=sql.Identifier(schema)),
        {"run_id": run_id, "modes": list(mode_names(lambda mode: mode.starts_empty))},
    ).fetchone()
    assert found is not None
    table, other = found
    return TargetChanged(
        f"target: {table} {what} since run {run_id} was prepared"
        + (f", by run {other}" if other else "")
        + ", so rows that it has committed may be gone; start a new run",
        Diagnosis(side="target"),
    )


def check_loaded_since(connection: Connection, schema: str, run_id: str) -> None:
    """For what takes all rows out of the target's table, late in a run.

    Raises:
        TargetChanged: another run has loaded rows since this one was prepared, which would go.
    """
    found = _loaded_since(connection, schema, run_id, tuple(MODES), same_rows=False)
    if found is not None:
        table, other, _ = found
        raise TargetChanged(
            f"target: run {other} has loaded rows into {table} since run {run_id} was prepared, "
            "which would be lost now; start a new run if they may go",
            Diagnosis(side="target"),
        )


def check_not_replaced(connection: Connection, schema: str, run_id: str) -> None:
    """For a run that adds its rows, and finds them there already if another one has replaced them.

    Raises:
        TargetChanged: another run has.
    """
    found = _loaded_since(
        connection, schema, run_id, mode_names(lambda mode: mode.reloads_partitions), same_rows=True
    )
    if found is not None:
        table, other, mode = found
        raise TargetChanged(
            f"target: run {other} (--mode {mode}) has loaded the same rows into {table} since run "
            f"{run_id} was prepared, so what is left of this one would double them; start a new "
            "run if it is still wanted",
            Diagnosis(side="target"),
        )


def _loaded_since(
    connection: Connection, schema: str, run_id: str, modes: Sequence[str], *, same_rows: bool
) -> tuple[str, str, str] | None:
    """The table, the run that has loaded it last, and its mode."""
    found = connection.execute(
        statement("loaded_since").format(schema=sql.Identifier(schema)),
        {"run_id": run_id, "modes": list(modes), "same_rows": same_rows, "given": GIVEN},
    ).fetchone()
    return (found[0], found[1], found[2]) if found else None
