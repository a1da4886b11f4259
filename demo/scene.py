"""The tables of the two servers, and the two failures."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from penstock_testkit import PostgresServer, tpch

SCALE = 0.3
TABLES = ("lineitem", "orders")

# A sequence keeps its value: nextval is not rolled back with its transaction.
FAIL_ONCE = """\
CREATE SEQUENCE demo_seen_{table};
CREATE FUNCTION demo_fail_once_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('demo_seen_{table}') = 1 THEN
        RAISE serialization_failure USING MESSAGE = 'the demo rejects this order once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER demo_fail_once BEFORE INSERT ON {table} FOR EACH ROW
    WHEN (NEW.{key} = {order}) EXECUTE FUNCTION demo_fail_once_{table}()"""

REFUND = "UPDATE orders SET o_totalprice = -o_totalprice WHERE o_orderkey = {order}"
ADD_RULE = "ALTER TABLE {table} ADD CONSTRAINT no_refunds CHECK (o_totalprice >= 0)"
DROP_RULE = "ALTER TABLE {table} DROP CONSTRAINT no_refunds"


@dataclass(frozen=True)
class Scene:
    """Two servers with their tables.

    Args:
        rows: the source's rows, by table.
        refused_once: the order whose lines the target rejects the first time.
        refund: the order with a negative price, which violates the target's constraint.
    """

    source: str
    target: str
    rows: dict[str, int]
    refused_once: int
    refund: int

    def on_target(self, statement: str) -> None:
        _execute(self.target, statement)

    def refuse_an_order_once(self) -> None:
        """Make the second table fail once, like the first."""
        self.on_target(FAIL_ONCE.format(table="orders", key="o_orderkey", order=self.refused_once))

    def make_warehouse(self) -> None:
        """Create an empty table `dw.orders` in the target, with the same constraint as `orders`."""
        tpch.create(self.target, ("orders",), schema="dw")
        self.on_target(ADD_RULE.format(table="dw.orders"))


def start(server: PostgresServer) -> str:
    """Create the database `shop` on a server, and return its URL."""
    _execute(server.url, "CREATE DATABASE shop")
    return server.url_for(db="shop")


def build(source: str, target: str) -> Scene:
    """Fill the source, and create the target's empty tables with both failures."""
    rows = tpch.load(source, TABLES, SCALE, primary_keys=True)
    tpch.create(target, TABLES)
    refused_once, refund = _order_near(source, 0.35), _order_near(source, 0.45)
    _execute(target, FAIL_ONCE.format(table="lineitem", key="l_orderkey", order=refused_once))
    _execute(source, REFUND.format(order=refund))
    _execute(target, ADD_RULE.format(table="orders"))
    return Scene(source, target, rows, refused_once, refund)


def _order_near(url: str, share: float) -> int:
    """Return the first order at or after a share of the keys."""
    query = sql.SQL(
        "SELECT min(o_orderkey) FROM orders"
        " WHERE o_orderkey >= {share} * (SELECT max(o_orderkey) FROM orders)"
    )
    with psycopg.connect(url) as connection:
        found = connection.execute(query.format(share=sql.Literal(share))).fetchone()
    assert found is not None
    return int(found[0])


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
