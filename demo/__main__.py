"""The acts, in order; the exit code is 0 only if everything went as expected."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from demo import assets, flow, lake, proof, scene
from demo.scene import Scene
from demo.stage import Stage
from penstock_testkit import PostgresServer

ENDS = "--source env:SOURCE --target env:TARGET"
LINES, ORDERS = "demo-lineitem", "demo-orders"


def main() -> int:
    begun = time.monotonic()
    stage = Stage()
    stage.title("Penstock copies a table in parallel partitions, each committed exactly once.")
    stage.heading("Two servers and some data")
    with PostgresServer() as source, PostgresServer() as target:
        stage.say(
            f"Two PostgreSQL 18 servers run in temporary folders, on ports {source.port} and "
            f"{target.port}. Loading TPC-H data at scale {scene.SCALE:g} into the first."
        )
        set_up = scene.build(scene.start(source), scene.start(target))
        described = " and ".join(f"{rows:,} rows of {name}" for name, rows in set_up.rows.items())
        stage.say(f"The source holds {described}; the target has the same tables, empty.")
        stage.gap()
        stage.export({"SOURCE": set_up.source, "TARGET": set_up.target})
        plan(stage)
        fail_once(stage, set_up)
        before = fail_permanently(stage, set_up)
        carry_on(stage, set_up, before)
        lake.run(stage, set_up)
        flow.run(stage, set_up)
        assets.run(stage, set_up)
        prove(stage, set_up)
    summarise(stage, time.monotonic() - begun)
    return 0 if stage.good else 1


def plan(stage: Stage) -> None:
    stage.heading("The plan")
    stage.say(
        "The plan shows how the table would be partitioned, and why. Planning scans no rows and "
        "changes nothing."
    )
    stage.run(f"penstock plan {ENDS} --table public.lineitem --degree 2")


def fail_once(stage: Stage, set_up: Scene) -> None:
    stage.heading("A copy, and a partition that fails once")
    stage.say(
        f"A trigger on the target rejects the first line of order {set_up.refused_once:,} once, "
        "with a serialization failure. Such an error is transient: the partition is rolled back "
        "and retried, while the others continue."
    )
    stage.run(
        f"penstock copy {ENDS} --table public.lineitem \\\n"
        f"    --mode truncate --degree 2 --run-id {LINES}"
    )
    attempts = [record.attempt for record in proof.commit_records(set_up.target, LINES)]
    stage.check(
        f"{len(attempts)} partitions committed, one of them at its second attempt",
        len(attempts) > 2 and sorted(attempts) == [1] * (len(attempts) - 1) + [2],
    )


def fail_permanently(stage: Stage, set_up: Scene) -> list[proof.Record]:
    stage.heading("A copy that cannot succeed")
    stage.say(
        f"Order {set_up.refund:,} is a refund, with a negative price, and a constraint on the "
        "target forbids these. Retrying would not help: no further partition is started, and the "
        "report says what is wrong, and where. This table is partitioned into key ranges with "
        "about the same number of rows, by the source's statistics."
    )
    stage.run(
        f"penstock copy {ENDS} --table public.orders \\\n"
        "    --strategy range --key o_orderkey --partitions 8 \\\n"
        f"    --mode truncate --degree 2 --run-id {ORDERS}",
        expect=65,
    )
    before = proof.commit_records(set_up.target, ORDERS)
    stage.check(
        f"the run stopped with {len(before)} of 8 partitions committed, each complete or absent",
        0 < len(before) < 8,
    )
    return before


def carry_on(stage: Stage, set_up: Scene, before: list[proof.Record]) -> None:
    """Resume the run that failed, and check that committed partitions stay.

    Args:
        stage: prints and checks.
        set_up: the databases.
        before: the commit records before the resumption.
    """
    stage.heading("The cause is removed, and the run continues")
    stage.say("Refunds are fine after all:")
    drop_rule = scene.DROP_RULE.format(table="orders")
    stage.code(drop_rule)
    set_up.on_target(drop_rule)
    stage.say(
        "Only partitions without a commit record are copied. The snapshot ended with the first "
        "execution; a new one is allowed only because the source's statistics show no write since."
    )
    stage.run(f"penstock resume {ORDERS} {ENDS}")
    after = proof.commit_records(set_up.target, ORDERS)
    unchanged = [record for record in after if record in before]
    stage.check(
        f"resume copied the {len(after) - len(unchanged)} that were missing; the other "
        f"{len(unchanged)} stayed as they were",
        len(after) == 8 and unchanged == before,
    )


def prove(stage: Stage, set_up: Scene) -> None:
    stage.heading("Verification")
    stage.say(
        "Penstock counts the rows on both sides again, and compares the counts with its records:"
    )
    stage.run(f"penstock verify {LINES} {ENDS}")
    stage.run(f"penstock verify {ORDERS} {ENDS}")
    stage.say("Now the same without Penstock: one query on both servers, over all rows:")
    stage.code(proof.CHECKSUM.format(table="…"))
    rows: list[tuple[str, str, str, str]] = []
    same = True
    for table, count in set_up.rows.items():
        ours, theirs = proof.checksums(set_up.source, set_up.target, table)
        rows += [
            (table, side, f"{found[0]:,}", str(found[1]))
            for side, found in (("source", ours), ("target", theirs))
        ]
        same = same and ours == theirs and ours[0] == count
    stage.gap()
    stage.table(("table", "server", "rows", "checksum"), rows)
    stage.gap()
    stage.check("both servers hold the same rows, each once", same)
    records(stage, set_up)


def records(stage: Stage, set_up: Scene) -> None:
    stage.gap()
    stage.say(
        "A partition is done when its record is in the target, written in the same transaction as "
        "its rows. The primary key (run_id, partition_id) allows only one record per partition:"
    )
    stage.code("SELECT … FROM penstock.commit_record ORDER BY run_id, partition_id")
    found = {run_id: proof.commit_records(set_up.target, run_id) for run_id in (LINES, ORDERS)}
    stage.gap()
    stage.table(
        ("run_id", "partition_id", "attempt", "rows", "committed_at"),
        [
            (run_id, item.partition_id, str(item.attempt), f"{item.rows:,}", item.committed_at)
            for run_id, items in found.items()
            for item in items
        ],
    )
    stage.gap()
    stage.check(
        "the records add up to the rows of the source",
        [sum(item.rows for item in items) for items in found.values()] == [*set_up.rows.values()],
    )


def summarise(stage: Stage, seconds: float) -> None:
    stage.heading("Summary")
    wrong = [text for text, good in stage.checks if not good]
    if wrong:
        stage.say(f"{len(wrong)} of {len(stage.checks)} checks failed:")
        for text in wrong:
            stage.say(f"- {text}")
        return
    stage.say(
        f"All {len(stage.checks)} checks passed, in {seconds:.0f} s: one partition failed and "
        "was retried alone, one run stopped and was resumed, and every row arrived exactly once."
    )
    stage.gap()
    stage.say("What to read next, for your own task:")
    stage.table(("", ""), _pages())
    stage.gap()
    stage.say(
        "To begin with your own tables, read docs/getting-started.md; penstock --help lists every "
        "command."
    )


def _pages() -> list[tuple[str, str]]:
    """Return the title of each task's page, and its path in this checkout."""
    root = Path(__file__).parent.parent
    docs = root / "docs"
    tasks = [page for page in sorted((docs / "tasks").glob("*.md")) if page.stem != "index"]
    others = (docs / f"{name}.md" for name in ("moving-a-database", "airflow", "dagster"))
    found = []
    for page in [*tasks, *others]:
        title = page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        found.append((f"  {title}", str(page.relative_to(root))))
    return found


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        print("\ninterrupted: both servers are stopped and removed", file=sys.stderr)
        code = 130
    sys.exit(code)
