"""`verify --checksum` finds every kind of damage, and reports nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Verification, copy, plan_repair, repair_run, status, verify
from penstock.events import Prepared, Verified
from penstock.verification.result import DIFFERENT, EXTRA, MISSING

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

RUN = "r1"
TABLE = "CREATE TABLE t (id int {}, at timestamptz, note text, amount numeric(12, 2))"
ROWS = """
    INSERT INTO t
    SELECT n, timestamptz '2026-01-01' + n * interval '1 hour',
        CASE WHEN n % 7 > 0 THEN 'note ' || n END, n / 7.0
    FROM generate_series(1, 2000) AS n
"""

STRATEGIES: dict[str, dict[str, Any]] = {
    "whole": {"strategy": "whole"},
    "ctid": {"strategy": "ctid", "partitions": 4},
    "range": {"strategy": "range", "key": "id", "partitions": 4},
    "hash": {"strategy": "hash", "key": "id", "partitions": 3},
    "time": {"strategy": "time", "key": "at", "interval": "1 month"},
    "values": {"strategy": "values", "key": "id % 3"},
}
MODES = ("append", "truncate", "replace", "upsert")


def check(pair: Pair, *, show_rows: bool = True) -> Verification:
    return verify(
        RUN, source=pair.source.url, target=pair.target.url, checksum=True, show_rows=show_rows
    )


def differences(result: Verification) -> dict[str | None, set[tuple[str, str]]]:
    """Return, for each partition that differs, its keys and how they differ."""
    return {
        each.partition_id: {(row.key, row.what) for row in each.rows}
        for each in result.checks
        if not each.ok
    }


def home(pair: Pair, id_: int) -> str:
    """Return the range partition that contains a row of the source."""
    for each in status(RUN, target=pair.target.url).run.plan.partitions:
        condition = str(each.extent)
        if "[" in condition:
            lower, upper = condition.removeprefix("id [").removesuffix(")").split(", ")
            condition = f"id >= {lower} AND id < {upper}"
        if pair.source.count(where=f"id = {id_} AND {condition}"):
            return each.id
    raise AssertionError(id_)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both(TABLE.format("PRIMARY KEY"))
    pair.source.run(ROWS, "ANALYZE t")
    return pair


@pytest.fixture
def keyless(pair: Pair) -> Pair:
    pair.both(TABLE.format(""))
    pair.source.run(ROWS, "ANALYZE t")
    return pair


class TestSidesAgree:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("cut", STRATEGIES.values(), ids=STRATEGIES)
    def test_after_a_copy(self, filled: Pair, mode: str, cut: dict[str, Any]) -> None:
        if mode == "replace" and "key" not in cut:
            cut = STRATEGIES["range"]
        filled.copy(mode=mode, run_id=RUN, **cut)
        result = check(filled)
        assert result.ok, result
        assert result.method == "checksums"
        for each in result.checks:
            assert each.source == each.committed
            assert each.source_digest is not None
            if mode != "upsert":
                assert (each.target, each.target_digest) == (each.source, each.source_digest)
        assert sum(each.source or 0 for each in result.checks if each.partition_id) == 2000

    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_next_to_rows_of_other_origin(self, filled: Pair, mode: str) -> None:
        filled.target.run("INSERT INTO t VALUES (0, NULL, 'mine', 0), (9999, NULL, 'mine', 0)")
        filled.copy(mode=mode, run_id=RUN, **STRATEGIES["ctid"])
        assert check(filled).ok
        filled.target.run("INSERT INTO t VALUES (-1, NULL, 'later', 0)")
        assert check(filled).ok

    def test_after_one_day_was_replaced(self, filled: Pair) -> None:
        filled.target.run("INSERT INTO t VALUES (0, '1999-01-01', 'mine', 0)")
        where = "at >= '2026-01-05' AND at < '2026-01-09'"
        filled.copy(mode="replace", run_id=RUN, where=where, **STRATEGIES["time"])
        assert check(filled).ok
        filled.target.run("UPDATE t SET note = 'x' WHERE id = 150")
        ((_, rows), (whole, _)) = differences(check(filled)).items()
        assert rows == {("150", DIFFERENT)}
        assert whole is None

    def test_after_the_target_was_rewritten(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        filled.target.run("ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED")
        assert check(filled).ok
        filled.target.run("UPDATE t SET note = 'x' WHERE id = 1500")
        assert differences(check(filled)) == {
            home(filled, 1500): {("1500", DIFFERENT)},
            None: set(),
        }

    def test_after_rows_were_rewritten_unchanged(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["ctid"])
        filled.target.run("UPDATE t SET note = note WHERE id % 3 = 0")
        assert check(filled).ok

    def test_after_vacuum(self, filled: Pair) -> None:
        filled.copy(run_id=RUN, **STRATEGIES["ctid"])
        filled.target.run("VACUUM FREEZE t", "VACUUM FULL t")
        assert check(filled).ok

    def test_in_a_partitioned_target(self, pair: Pair) -> None:
        pair.source.run(TABLE.format(""), ROWS, "ANALYZE t")
        pair.target.run(
            TABLE.format("") + " PARTITION BY HASH (id)",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            "CREATE TABLE t2 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        )
        pair.copy(run_id=RUN, **STRATEGIES["range"])
        assert check(pair).ok
        pair.target.run("DELETE FROM t WHERE id = 7")
        assert home(pair, 7) in differences(check(pair))

    def test_without_rows_or_without_columns(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t ()")
        pair.copy(run_id=RUN)
        assert check(pair).ok
        pair.source.run("INSERT INTO t DEFAULT VALUES")
        assert differences(check(pair)) == {"p0001": set(), None: set()}

    def test_across_renamed_columns(self, pair: Pair) -> None:
        pair.source.run(TABLE.format("PRIMARY KEY"), ROWS, "ANALYZE t")
        pair.target.run(
            'CREATE TABLE t ("No." int PRIMARY KEY, "when" timestamptz, "what?" text,'
            " sum numeric(12, 2))"
        )
        pair.copy(run_id=RUN, map="position", mode="truncate", **STRATEGIES["range"])
        assert check(pair).ok
        pair.target.run('UPDATE t SET "what?" = NULL WHERE "No." = 1500')
        assert differences(check(pair)) == {home(pair, 1500): {("1500", DIFFERENT)}, None: set()}

    def test_where_lengths_and_precisions_differ(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (id numeric(10, 1), c char(3), v varchar(5), at timestamp(0))",
            "INSERT INTO t VALUES (1.5, 'a', 'b', '2026-01-01'), (-0.1, 'ab ', 'b ', NULL)",
        )
        pair.target.run(
            "CREATE TABLE t (id numeric(14, 4), c char(9), v varchar(50), at timestamp(3))"
        )
        pair.copy(run_id=RUN, mode="truncate")
        assert check(pair).ok


def counted(pair: Pair) -> Verification:
    return verify(RUN, source=pair.source.url, target=pair.target.url)


class TestCounts:
    """Without checksums: rows that others have put in the place of a partition's are noticed."""

    STRANGERS = (
        "DELETE FROM t WHERE id BETWEEN 100 AND 149",
        "INSERT INTO t SELECT n, NULL, 'not ours', 0 FROM generate_series(9001, 9050) AS n",
    )

    @pytest.mark.parametrize("cut", ["ctid", "range", "hash"])
    @pytest.mark.parametrize("has_key", [True, False])
    def test_strangers_do_not_make_up_for_lost_rows(
        self, pair: Pair, cut: str, has_key: bool
    ) -> None:
        pair.both(TABLE.format("PRIMARY KEY" if has_key else ""))
        pair.source.run(ROWS, "ANALYZE t")
        pair.copy(mode="truncate", run_id=RUN, **STRATEGIES[cut])
        assert counted(pair).ok
        pair.target.run(*self.STRANGERS)
        found = counted(pair)
        assert not found.ok
        lost = sum((each.committed or 0) - (each.target or 0) for each in found.wrong)
        assert lost == 50, found
        assert all("were committed" in each.note for each in found.wrong)

    @pytest.mark.parametrize("has_key", [True, False])
    def test_rows_that_were_rewritten_are_no_loss(self, pair: Pair, has_key: bool) -> None:
        pair.both(TABLE.format("PRIMARY KEY" if has_key else ""))
        pair.source.run(ROWS, "ANALYZE t")
        pair.copy(mode="truncate", run_id=RUN, **STRATEGIES["ctid"])
        pair.target.run("UPDATE t SET note = note WHERE id < 100")
        found = counted(pair)
        assert found.ok, found
        first = found.checks[0]
        assert (first.committed, first.target) == (first.source, None)
        assert any("p0001 were written again" in note for note in found.notes)

    def test_an_updated_value_is_no_loss_of_a_row(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        filled.target.run("UPDATE t SET note = 'x' WHERE id < 100")
        assert counted(filled).ok

    def test_an_upserted_table_has_too_few_rows(self, filled: Pair) -> None:
        filled.copy(mode="upsert", run_id=RUN, **STRATEGIES["range"])
        filled.target.run("DELETE FROM t WHERE id = 7")
        assert not counted(filled).ok

    def test_after_a_repair_no_partition_has_zero_rows_and_is_right(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        filled.target.run("DELETE FROM t WHERE id = 7")
        repair = plan_repair(RUN, source=filled.source.url, target=filled.target.url)
        for _ in repair_run(repair):
            pass
        for found in (counted(filled), check(filled)):
            assert found.ok, found
            for each in found.checks:
                assert each.target in (None, each.committed), each
                assert each.target_digest in (None, each.source_digest), each


KINDS = {
    "float8": ["'NaN'", "'-0'", "0", "'Infinity'", "1e-300", "0.1::float4", "1/3.0::float8"],
    "float4": ["'NaN'", "'-0'", "0.1", "16777217"],
    "numeric": ["'NaN'", "1.0", "1.00", "0", "-0.5", "10::numeric ^ 500"],
    "text": ["''", "' '", "'a '", r"E'tab\t nl\n'", "'ünïcödé \U0001f40c'", "'(,\"\\)'"],
    "char(4)": ["''", "'a'", "'a  '", "'abcd'"],
    "json": ["""'{"a":1}'""", """'{"a": 1}'""", "'null'"],
    "jsonb": ["""'{"a":1}'""", "'[1, 2.50]'", "'null'"],
    "bytea": [r"'\x'", r"'\x00'", r"'\xdeadbeef'"],
    "timestamptz": ["'4713-01-01 BC'", "'infinity'", "'2026-11-20 12:00+05:30'"],
    "interval": ["'1 month'", "'30 days'", "'-1 year 2 hours'", "'720 hours'"],
    "int[]": ["'{}'", "'{1,NULL,3}'", "'[0:2]={1,2,3}'", "'{{1,2},{3,4}}'"],
    "text[]": [r"""'{"NULL",NULL,"a,b","c\"d"}'""", "'{}'"],
    "int4range": ["'empty'", "'[1,5)'", "'(,)'"],
    "varbit": ["B''", "B'0'", "B'0101'"],
    "inet": ["'10.0.0.1'", "'10.0.0.1/8'", "'::1'"],
    "tsvector": ["'a:1 b:2A'", "''"],
    "polygon": ["'((0,0),(1,1),(1,0))'"],
    "bool": ["true", "false"],
    '"char"': ["'a'", "''"],
    "money": ["'1.25'", "'-3'"],
    "mood": ["'glad'", "'it''s fine'"],
    "positive": ["1", "99"],
}


class TestTypes:
    @pytest.mark.parametrize(("kind", "values"), KINDS.items(), ids=KINDS)
    def test_checksums_agree_and_distinguish_all_values(
        self, pair: Pair, kind: str, values: list[str]
    ) -> None:
        pair.both(
            "CREATE TYPE mood AS ENUM ('glad', 'it''s fine')",
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            f"CREATE TABLE t (id int PRIMARY KEY, v {kind}, w {kind})",
        )
        rows = [f"({n}, {value}, NULL)" for n, value in enumerate(values)]
        rows += [f"({n + 100}, NULL, {value})" for n, value in enumerate(values)]
        pair.source.run(f"INSERT INTO t VALUES {', '.join(rows)}")
        pair.copy(run_id=RUN, mode="truncate")
        result = check(pair)
        assert result.ok, result
        if kind == "char(4)":
            return  # trailing blanks are insignificant
        for n, value in enumerate(values[1:]):
            pair.target.run(f"UPDATE t SET v = {value} WHERE id = {n}")
        if len(values) > 1:
            expected = {(str(n), DIFFERENT) for n in range(len(values) - 1)}
            assert differences(check(pair)) == {"p0001": expected, None: set()}

    def test_a_table_of_1600_columns_is_compared(self, pair: Pair) -> None:
        names = [f"c{n}" for n in range(1600)]
        pair.both(f"CREATE TABLE t ({', '.join(f'{name} int' for name in names)})")
        pair.source.run(f"INSERT INTO t VALUES ({', '.join(map(str, range(1600)))})")
        pair.copy(run_id=RUN, mode="truncate")
        assert check(pair).ok
        pair.target.run("UPDATE t SET c1599 = 0")
        assert not check(pair, show_rows=False).ok

    def test_a_large_value_is_compared(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY, v text, w bytea)")
        pair.source.run(
            "INSERT INTO t SELECT 1, repeat('x', 100000000), decode(repeat('ab', 50000000), 'hex')"
        )
        pair.copy(run_id=RUN, mode="truncate")
        assert check(pair).ok
        pair.target.run("UPDATE t SET v = left(v, -1) || 'y'")
        assert differences(check(pair)) == {"p0001": {("1", DIFFERENT)}, None: set()}


DAMAGE: dict[str, tuple[list[str], dict[int, str]]] = {
    "a changed value": (["UPDATE t SET note = note || ' ' WHERE id = 1500"], {1500: DIFFERENT}),
    "a value that is gone": (["UPDATE t SET note = NULL WHERE id = 1500"], {1500: DIFFERENT}),
    "a lost row": (["DELETE FROM t WHERE id = 3"], {3: MISSING}),
    "swapped values": (
        [
            "UPDATE t SET note = CASE id WHEN 1500 THEN 'note 20' ELSE 'note 1500' END"
            " WHERE id IN (20, 1500)"
        ],
        {20: DIFFERENT, 1500: DIFFERENT},
    ),
    "swapped values within a partition": (
        ["UPDATE t SET amount = CASE id WHEN 20 THEN 3 ELSE 20 / 7.0 END WHERE id IN (20, 21)"],
        {20: DIFFERENT, 21: DIFFERENT},
    ),
    "a lost row and a doubled one": (
        ["DELETE FROM t WHERE id IN (3, 4)", "INSERT INTO t VALUES (3, NULL, 'other', 0)"],
        {3: DIFFERENT, 4: MISSING},
    ),
}
# After these modes, any other row in the target is damage too.
FRESH = ("truncate", "replace")


class TestDamage:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(("statements", "expected"), DAMAGE.values(), ids=DAMAGE)
    def test_damage_is_found(
        self, filled: Pair, mode: str, statements: list[str], expected: dict[int, str]
    ) -> None:
        filled.copy(mode=mode, run_id=RUN, **STRATEGIES["range"])
        filled.target.run(*statements)
        result = differences(check(filled))
        assert result.pop(None) == set()
        by_home: dict[str | None, set[tuple[str, str]]] = {}
        for id_, what in expected.items():
            by_home.setdefault(home(filled, id_), set()).add((str(id_), what))
        assert result == by_home

    @pytest.mark.parametrize("mode", ["append", "truncate", "upsert"])
    def test_damage_is_found_among_blocks(self, filled: Pair, mode: str) -> None:
        filled.copy(mode=mode, run_id=RUN, **STRATEGIES["ctid"])
        filled.target.run("UPDATE t SET note = 'x' WHERE id = 1", "DELETE FROM t WHERE id = 2000")
        expected = {"p0001": {("1", DIFFERENT)}, "p0004": {("2000", MISSING)}, None: set()}
        assert differences(check(filled)) == expected

    @pytest.mark.parametrize("mode", ["append", "truncate"])
    def test_damage_is_attributed_to_a_partition_without_listing_rows(
        self, filled: Pair, mode: str
    ) -> None:
        filled.copy(mode=mode, run_id=RUN, **STRATEGIES["ctid"])
        filled.target.run("UPDATE t SET note = 'x' WHERE id = 1")
        result = check(filled, show_rows=False)
        assert differences(result) == {"p0001": set(), None: set()}

    @pytest.mark.parametrize("cut", ["ctid", "range"])
    def test_a_duplicated_row_is_found(self, keyless: Pair, cut: str) -> None:
        keyless.copy(mode="truncate", run_id=RUN, **STRATEGIES[cut])
        keyless.target.run("INSERT INTO t SELECT * FROM t WHERE id = 2000")
        result = differences(check(keyless))
        ((key, what),) = result["p0004"]
        assert key.startswith("(2000,")
        assert what == EXTRA
        assert result.keys() == {"p0004", None}

    def test_a_row_that_no_run_loaded_is_found(self, keyless: Pair) -> None:
        keyless.copy(mode="truncate", run_id=RUN, **STRATEGIES["ctid"])
        keyless.target.run("INSERT INTO t VALUES (-1, NULL, 'whose?', NULL)")
        assert differences(check(keyless)) == {None: {("(-1,,whose?,)", EXTRA)}}

    def test_a_changed_row_without_a_key_is_found(self, keyless: Pair) -> None:
        keyless.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        keyless.target.run("UPDATE t SET note = 'x', at = NULL WHERE id = 7")
        result = differences(check(keyless))
        ((key, what),) = result[home(keyless, 7)]
        assert key.startswith("(7,")
        assert what == MISSING
        assert result[None] == {("(7,,x,1.00)", EXTRA)}

    def test_at_most_twenty_rows_of_a_partition_are_listed(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        filled.target.run("UPDATE t SET note = 'x' WHERE id < 900")
        result = differences(check(filled))
        assert len(result["p0001"]) == 20
        filled.target.run("TRUNCATE t")
        assert {len(rows) for rows in differences(check(filled)).values()} <= {0, 20}

    def test_a_changed_row_of_the_source_is_found(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        filled.source.run("UPDATE t SET note = 'x' WHERE id = 7", "DELETE FROM t WHERE id = 1999")
        result = check(filled)
        assert differences(result) == {
            home(filled, 7): {("7", DIFFERENT)},
            "p0004": {("1999", EXTRA)},
            None: set(),
        }
        assert any("as they are now" in note for note in result.notes)

    def test_a_rewritten_source_is_compared_as_a_whole(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["ctid"])
        filled.source.run("CREATE INDEX by_at ON t (at DESC)", "CLUSTER t USING by_at")
        result = check(filled)
        assert result.ok
        assert any("rewritten" in note for note in result.notes)
        filled.target.run("UPDATE t SET note = 'x' WHERE id = 7")
        assert ("7", DIFFERENT) in set().union(*differences(check(filled)).values())


class TestCommandLine:
    def test_output_names_partition_and_key(self, filled: Pair) -> None:
        filled.copy(mode="truncate", run_id=RUN, **STRATEGIES["range"])
        words = ["verify", RUN, *filled.ends, "--checksum", "--show-rows"]
        good = filled.cli(*words)
        assert good.returncode == 0, good.stdout + good.stderr
        filled.target.run("UPDATE t SET note = 'x' WHERE id = 1500")
        bad = filled.cli(*words)
        assert bad.returncode == 65
        lines = [line for line in bad.stdout.splitlines() if "1500" in line]
        assert any(DIFFERENT in line and home(filled, 1500) in line for line in lines), bad.stdout
        shown = json.loads(filled.cli(*words, "--json").stdout)
        assert shown["method"] == "checksums"
        (wrong,) = [each for each in shown["checks"] if not each["ok"] and each["partition_id"]]
        assert wrong["rows"] == [{"key": "1500", "what": DIFFERENT}]

    def test_listing_rows_requires_checksums(self, filled: Pair) -> None:
        filled.copy(run_id=RUN)
        done = filled.cli("verify", RUN, *filled.ends, "--show-rows")
        assert done.returncode == 64
        assert "expected --checksum" in done.stderr


SPOILER = """
    CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.id = 1500 THEN NEW.note = 'spoilt'; END IF; RETURN NEW; END $$
"""


class TestAtTheEndOfARun:
    @pytest.mark.parametrize("method", ["counts", "checksums"])
    @pytest.mark.parametrize("mode", MODES)
    def test_the_result_is_reported(self, filled: Pair, method: str, mode: str) -> None:
        events = filled.events(mode=mode, verify=method, **STRATEGIES["range"])
        (results,) = [event for event in events if isinstance(event, Verified)]
        assert (results.ok, results.method, results.partitions, results.mismatches) == (
            True,
            method,
            4,
            0,
        )
        assert not any(isinstance(e, Verified) for e in filled.events(mode="upsert"))

    def test_the_source_is_read_in_the_runs_snapshot(self, filled: Pair) -> None:
        results = []
        for event in copy(filled.spec(verify="checksums", **STRATEGIES["range"])):
            if isinstance(event, Prepared):
                filled.source.run("UPDATE t SET note = 'late'", "DELETE FROM t WHERE id > 1900")
            if isinstance(event, Verified):
                results.append(event.ok)
        assert results == [True]

    def test_a_difference_fails_the_run_until_it_is_repaired(self, filled: Pair) -> None:
        filled.target.run(
            SPOILER,
            "CREATE TRIGGER spoil BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION spoil()",
        )
        options: dict[str, Any] = {"mode": "truncate", "run_id": RUN, **STRATEGIES["range"]}
        done = filled.cli(
            "copy", *filled.ends, "--table", "public.t", "--mode", "truncate", "--run-id", RUN,
            "--strategy", "range", "--key", "id", "--partitions", "4", "--verify", "checksums",
        )  # fmt: skip
        assert done.returncode == 65
        where = home(filled, 1500)
        assert f"{where} (" in done.stderr
        assert "1 partition differs" in done.stderr
        assert status(RUN, target=filled.target.url).run.status == "failed"

        filled.target.run("UPDATE t SET note = 'note 1500' WHERE id = 1500")
        filled.copy(verify="checksums", **options)
        # The run is complete: what is written from here on does not belong to it.
        filled.source.run("DELETE FROM t")
        assert not any(
            isinstance(event, Verified) for event in filled.events(verify="checksums", **options)
        )
