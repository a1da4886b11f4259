"""Tables and reports of the command line fit 100 columns, with names of ordinary length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cli import run_cli

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

WIDTH = 100
ORDERS, INVOICES = "public.subscription_orders", "public.subscription_invoices"


@pytest.fixture
def shop(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE subscription_orders (subscription_order_id bigint PRIMARY KEY, note text)",
        "INSERT INTO subscription_orders SELECT i, 'n' || i FROM generate_series(1, 20000) AS i",
        "CREATE TABLE subscription_invoices (subscription_invoice_id bigint PRIMARY KEY)",
        "INSERT INTO subscription_invoices SELECT i FROM generate_series(1, 123456) AS i",
        "ANALYZE",
    )
    return pair


NAMES_WHOLE = (["status", "nightly-2026-11-26"], ["watermark", "list"], ["runs", "--target"])


def test_results_fit_100_columns(shop: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("SHOP", shop.source.url)
    monkeypatch.setenv("WAREHOUSE", shop.target.url)
    target = ["--target", "env:WAREHOUSE"]
    ends = ["--source", "env:SHOP", *target]
    one = [*ends, "--table", INVOICES]
    cut = ["--strategy", "range", "--key", "subscription_invoice_id", "--partitions", "12"]
    every = [*ends, "--tables", "public.*"]
    night = ["--mode", "upsert", "--incremental", "xmin"]
    for arguments in (
        ["plan", *one, *cut, "--mode", "recreate"],
        ["plan-all", *every, "--mode", "recreate"],
        ["copy", *one, *cut, "--mode", "recreate", "--run-id", "invoices-of-november-1"],
        ["copy-all", *every, "--mode", "recreate", "--run-id", "nightly-2026-11-26"],
        ["copy", *one, *night, "--run-id", "night-1"],
        ["status", "invoices-of-november-1", *target],
        ["status", "nightly-2026-11-26", *target],
        ["report", "invoices-of-november-1", *target],
        ["report", "nightly-2026-11-26", *target],
        ["verify", "night-1", *ends, "--checksum"],
        ["watermark", "list", *target],
        ["watermark", "show", f"{INVOICES} to {INVOICES}", *target],
        ["runs", *target],
        ["tune", *one, *cut, "--degrees", "1,2", "--sample", "1MB"],
        [],
        ["verify", "night-1", *ends, "--checksum", "--show-rows"],
        ["verify", "night-1", *ends, "--repair", "--dry-run"],
    ):
        if not arguments:
            # From here on, both sides differ.
            shop.target.run("DELETE FROM subscription_invoices WHERE subscription_invoice_id < 5")
            continue
        done = run_cli(*arguments)
        assert done.stdout, (arguments, done.stderr)
        long = [line for line in done.stdout.splitlines() if len(line) > WIDTH]
        if arguments[:2] in NAMES_WHOLE:
            # Every name can be pasted back, however long it is.
            shown = ["  ".join(line.split()) for line in long]
            assert all(len(line) <= WIDTH or INVOICES in line for line in shown), arguments
            assert "…" not in done.stdout
        else:
            assert not long, arguments
