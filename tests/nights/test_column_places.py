"""Sources whose columns have no ids: their order shows which names may stand for other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.conftest import fresh_mysql
from tests.one_copy import OneCopy

import penstock
from penstock import BatchSpec, CopySpec, PenstockError, PlanningError
from penstock_testkit import AnyMysqlServer
from penstock_testkit.mysql import connect_mysql

from ..covering import each_pair
from .by_column import merged

ROWS = 20
TABLE = (
    "CREATE TABLE items (id int PRIMARY KEY, email varchar(30), note varchar(30),"
    " changed timestamp NOT NULL)"
)
EXCHANGED = (
    "ALTER TABLE items RENAME COLUMN email TO passing",
    "ALTER TABLE items RENAME COLUMN note TO email",
    "ALTER TABLE items RENAME COLUMN passing TO note",
)
REPLACED = (
    "ALTER TABLE items DROP COLUMN note",
    "ALTER TABLE items RENAME COLUMN email TO note",
    "ALTER TABLE items ADD COLUMN email varchar(30) DEFAULT 'new'",
)
DRIFT = ("fail", "ignore", "add,widen,rename")


@dataclass(frozen=True)
class Systems:
    """A source, and a DuckDB target."""

    source: str
    target: str
    table: str
    open: Callable[[], Any]

    def run(self, *statements: str) -> None:
        with closing(self.open()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.open()) as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def found(self, query: str) -> list[tuple[Any, ...]]:
        with closing(duckdb.connect(self.target.removeprefix("duckdb:///"))) as connection:
            return connection.execute(query).fetchall()

    def make(self, statement: str) -> None:
        with closing(duckdb.connect(self.target.removeprefix("duckdb:///"))) as connection:
            connection.execute(statement)

    def options(self, **options: Any) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "table": self.table,
            "target_table": "main.items",
            "mode": "upsert",
            "incremental": "changed",
            "lookback": "0",
            "degree": 1,
            **options,
        }

    def night(self, **options: Any) -> OneCopy:
        return OneCopy(**self.options(**options))

    def plain_addresses(self) -> int:
        ((count,),) = self.found("SELECT count(*) FROM items AS t WHERE t::text LIKE '%@%'")
        return int(count)

    def check(self) -> None:
        query = "SELECT id, email, note FROM items ORDER BY id"
        assert self.found(query) == self.rows(query)


@pytest.fixture(params=["mysql", "duckdb"])
def systems(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systems]:
    target = f"duckdb:///{tmp_path}/target.duckdb"
    if request.param == "duckdb":
        path = f"{tmp_path}/source.duckdb"
        yield prepared(
            Systems(f"duckdb:///{path}", target, "main.items", lambda: duckdb.connect(path))
        )
        return
    server: AnyMysqlServer = request.getfixturevalue("mysql_server")
    with fresh_mysql(server) as url:
        table = f"{url.rpartition('/')[2].partition('?')[0]}.items"
        yield prepared(Systems(url, target, table, lambda: connect_mysql(url)))


def prepared(systems: Systems) -> Systems:
    values = ", ".join(
        f"({n}, 'm{n}@example.org', 'n{n}', '2026-01-01 00:00:00')" for n in range(1, ROWS + 1)
    )
    systems.run(TABLE, f"INSERT INTO items VALUES {values}")
    systems.make(TABLE)
    return systems


def test_values_follow_exchanged_names(systems: Systems) -> None:
    systems.night().done()
    systems.run(*EXCHANGED)
    assert merged(systems.night()).full
    systems.check()
    assert merged(systems.night()).full == ""


@pytest.mark.parametrize(
    ("statements", "hidden", "on_drift"),
    each_pair(
        [EXCHANGED, REPLACED],
        [{"mask": ("email=hash",)}, {"exclude_columns": ("email",)}],
        DRIFT,
    ),
)
def test_a_hidden_column_never_arrives_under_another_name(
    systems: Systems, statements: tuple[str, ...], hidden: dict[str, Any], on_drift: str
) -> None:
    if "mask" in hidden:
        systems.make("ALTER TABLE items ALTER email TYPE varchar")
    options = {**hidden, "on_drift": on_drift}
    systems.night(**options).done()
    systems.run(*statements)
    for more in (
        {},
        {"full_every": "0s"},
        {"mode": "truncate", "incremental": None, "lookback": None},
    ):
        found = systems.night(**{**options, **more})
        assert found.code == 76, found.error
        assert "note may be what was email" in found.message
    assert systems.plain_addresses() == 0
    systems.night(**options, set=("note=note",)).done()
    # After one of the two changes, these are the addresses: the user has said that they may be.
    assert systems.plain_addresses() in (0, ROWS)


def test_a_batch_does_not_reveal_a_renamed_column(systems: Systems) -> None:
    options = {"mode": "upsert", "incremental": "changed", "lookback": "0", "mask": ("*mail=hash",)}
    spec: dict[str, Any] = {"source": systems.source, "target": systems.target}
    spec |= {"tables": (systems.table,), "target_schema": "main"}
    list(penstock.copy_all(BatchSpec(**spec, defaults=options)))
    systems.run(
        "ALTER TABLE items RENAME COLUMN email TO contact",
        "ALTER TABLE items ADD COLUMN email varchar(30)",
    )
    options["on_drift"] = "add"
    with pytest.raises(PenstockError):
        list(penstock.copy_all(BatchSpec(**spec, defaults=options)))
    assert systems.plain_addresses() == 0


@pytest.mark.parametrize("statements", [EXCHANGED, REPLACED])
def test_a_run_does_not_continue_with_exchanged_names(
    systems: Systems, statements: tuple[str, ...]
) -> None:
    options = systems.options(mode="truncate", incremental=None, key="id", partitions=4)
    del options["lookback"]
    options |= {"run_id": "changed", "mask": ("email=last4",), "on_snapshot_lost": "accept"}
    plan = penstock.create(CopySpec(**options)).run.plan
    ends: dict[str, Any] = {"source": systems.source, "target": systems.target}
    list(penstock.resume("changed", **ends, only=(plan.partitions[0].id,)))
    systems.run(*statements)
    with pytest.raises(PlanningError, match="is in another place, and may be another column"):
        list(penstock.resume("changed", **ends))
    assert systems.plain_addresses() == 0


def test_a_column_in_another_place_is_read_again(systems: Systems) -> None:
    """The names are the same, and so are the values: reading too much is no harm."""
    systems.night().done()
    if systems.source.startswith("mysql"):
        systems.run("ALTER TABLE items MODIFY COLUMN note varchar(30) AFTER id")
    else:
        systems.run(
            "ALTER TABLE items RENAME COLUMN email TO old",
            "ALTER TABLE items ADD COLUMN email varchar(30)",
            "UPDATE items SET email = old",
            "ALTER TABLE items DROP COLUMN old",
        )
    assert merged(systems.night()).full
    systems.check()
    assert merged(systems.night()).full == ""


def test_another_expression_of_a_computed_column_is_drift(mysql_server: AnyMysqlServer) -> None:
    table = (
        "CREATE TABLE items (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS ({}),"
        " changed timestamp NOT NULL)"
    )
    with fresh_mysql(mysql_server) as source, fresh_mysql(mysql_server) as target:
        names = [url.rpartition("/")[2].partition("?")[0] for url in (source, target)]

        def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
            with closing(connect_mysql(url)) as connection:
                cursor = connection.cursor()
                for statement in statements:
                    cursor.execute(statement)
                connection.commit()
                return [tuple(row) for row in cursor.fetchall()]

        def night(**options: Any) -> OneCopy:
            usual: dict[str, Any] = {
                "table": f"{names[0]}.items",
                "target_table": f"{names[1]}.items",
                "mode": "upsert",
                "incremental": "changed",
                "lookback": "0",
                "degree": 1,
            }
            return OneCopy(source=source, target=target, **{**usual, **options})

        run(
            source,
            table.format("n * 2"),
            "INSERT INTO items (id, n, changed)"
            " VALUES (1, 10, '2026-01-01'), (2, 20, '2026-01-01')",
        )
        run(target, table.format("n * 2"))
        night().done()
        change = "ALTER TABLE items MODIFY COLUMN twice int GENERATED ALWAYS AS (n * 3)"
        run(source, change)
        for on_drift in ("fail", "add,widen,rename"):
            found = night(on_drift=on_drift)
            assert found.code == 76, found.error
            assert "compute column twice as" in found.message
        run(target, change)
        night().done()
        assert run(target, "SELECT id, twice FROM items ORDER BY id") == [(1, 30), (2, 60)]
        night().done()
