"""Names, orders and kinds of columns; types that travel, and those that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import PlanningError

if TYPE_CHECKING:
    from tests.conformance.conftest import Pair


class TestNames:
    def test_of_every_alphabet_and_with_every_sign(self, pair: Pair) -> None:
        table = '"Größe.%s {}"."Tä""ble ; --"'
        columns = '"select", "Ünï.code", "per%cent %s", "quo""te", "{0}", "back\\slash", "🐘"'
        pair.both(
            'CREATE SCHEMA "Größe.%s {}"',
            f"CREATE TABLE {table} ({columns.replace(',', ' int,')} int)",
        )
        pair.source.run(
            f"INSERT INTO {table} SELECT n, n, n, n, n, n, n FROM generate_series(1,50) n"
        )
        for options in (
            {"strategy": "ctid"},
            {"strategy": "range", "key": "per%cent %s", "partitions": 3},
            {"strategy": "hash", "key": 'quo"te', "partitions": 2},
            {"strategy": "values", "key": "{0}", "where": '"🐘" < 4 -- only "a few'},
        ):
            pair.copy(table, mode="truncate", **options)
            assert pair.target.count(table) == (3 if "where" in options else 50)
        pair.copy(table, mode="replace", strategy="range", key="back\\slash", partitions=3)
        pair.assert_same(table)

    def test_another_table_in_another_schema(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 9) AS n")
        pair.target.run('CREATE SCHEMA "B"', 'CREATE TABLE "B"."t.2" (id int)')
        pair.copy(target_table='B."t.2"')
        assert pair.target.count('"B"."t.2"') == 9


class TestWhere:
    @pytest.mark.parametrize(
        ("where", "count"),
        [
            ("id <= 3 -- x", 3),
            ("id <= 3 /* x */ OR id = 9", 4),
            ("name = 'it''s 100% \"so\" {} %s'", 1),
            ("name LIKE '%\\%%'", 1),
            ("id IN (SELECT max(id) FROM public.t)", 1),
            ("name IS NULL", 1),
            ("false", 0),
        ],
    )
    @pytest.mark.parametrize("strategy", ["whole", "range"])
    def test_is_taken_as_it_is_written(
        self, pair: Pair, where: str, count: int, strategy: str
    ) -> None:
        pair.both("CREATE TABLE t (id int, name text)")
        pair.source.run(
            "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 9) AS n",
            "INSERT INTO t VALUES (100, 'it''s 100% \"so\" {} %s'), (101, NULL)",
            "ANALYZE t",
        )
        key = "id" if strategy == "range" else None
        partitions = 3 if strategy == "range" else None
        assert (
            pair.copy(where=where, strategy=strategy, key=key, partitions=partitions).rows == count
        )
        assert pair.target.count() == count

    @pytest.mark.parametrize("where", ["id < 3) OR (id > 7", "true) OR (true", "1 = 1; --"])
    def test_that_breaks_out_of_its_parentheses_is_refused(self, pair: Pair, where: str) -> None:
        pair.both("CREATE TABLE t (id int)")
        pair.source.run("INSERT INTO t SELECT generate_series(1, 9)", "ANALYZE t")
        with pytest.raises(PlanningError, match="--where"):
            pair.events(where=where, strategy="range", key="id", partitions=3)
        assert pair.target.count() == 0
        assert not pair.has_control_schema()

    def test_that_fails_on_no_row_of_the_table_is_none_of_the_planners_business(
        self, pair: Pair
    ) -> None:
        # Bounds of the statistics may be rows that are gone by now.
        pair.both("CREATE TABLE t (id int)")
        pair.source.run(
            "INSERT INTO t SELECT generate_series(1, 500)",
            "ANALYZE t",
            "DELETE FROM t WHERE id = 1",
        )
        report = pair.copy(where="1 / (id - 1) >= 0", strategy="range", key="id", partitions=3)
        assert report.rows == 499


class TestColumns:
    def test_some_of_them(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (a int, b int, c text, d int)",
            "INSERT INTO t SELECT n, n, 'x', n FROM generate_series(1, 9) AS n",
        )
        pair.target.run("CREATE TABLE t (c text, a int, d int DEFAULT 7, e int)")
        pair.copy(columns=("a", "c"))
        assert pair.target.rows(
            "SELECT DISTINCT c, a = ANY (ARRAY[1,2,3,4,5,6,7,8,9]), d, e FROM t"
        ) == [("x", True, 7, None)]

    def test_in_another_order(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (a int, b int, c int, d text)",
            "INSERT INTO t VALUES (1, 2, 3, 'four')",
            "ALTER TABLE t DROP COLUMN b",
        )
        pair.target.run("CREATE TABLE t (d text, c int, a int)")
        pair.copy()
        assert pair.target.rows("SELECT a, c, d FROM t") == [(1, 3, "four")]

    def test_generated_and_identity(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, a int,"
            " both_stored int GENERATED ALWAYS AS (a * 2) STORED,"
            " both_virtual int GENERATED ALWAYS AS (a * 3) VIRTUAL,"
            " here int GENERATED ALWAYS AS (a * 4) STORED)",
            "INSERT INTO t (a) SELECT generate_series(1, 5)",
            "DELETE FROM t WHERE a = 2",
        )
        pair.target.run(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY (START 100), a int,"
            " both_stored int GENERATED ALWAYS AS (a * 2) STORED,"
            " both_virtual int GENERATED ALWAYS AS (a * 3) VIRTUAL,"
            " here int, there int GENERATED ALWAYS AS (a * 5) STORED)"
        )
        pair.copy()
        columns = "id, a, both_stored, both_virtual, here"
        pair.assert_same(columns=columns)
        assert pair.target.value("SELECT sum(there) FROM t") == 5 * (1 + 3 + 4 + 5)

    def test_a_view_and_a_partitioned_table_as_source(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE base (id int NOT NULL, x text) PARTITION BY RANGE (id)",
            "CREATE TABLE base_1 PARTITION OF base FOR VALUES FROM (0) TO (500)",
            "CREATE TABLE base_2 PARTITION OF base FOR VALUES FROM (500) TO (1001)",
            "INSERT INTO base SELECT n, 'x' FROM generate_series(1, 1000) AS n",
            "CREATE VIEW seen AS SELECT id, x FROM base WHERE id % 2 = 0",
        )
        pair.target.run("CREATE TABLE t (id int, x text)")
        for analyzed in (False, True):
            if analyzed:
                pair.source.run("ANALYZE base")
            for table, count in (("public.base", 1000), ("public.seen", 500)):
                pair.copy(
                    table, target_table="public.t", mode="truncate", strategy="range", key="id",
                    partitions=4,
                )  # fmt: skip
                assert pair.target.rows("SELECT count(*), count(DISTINCT id) FROM t") == [
                    (count, count)
                ]


# A value or two for each built-in type that has a binary form of its own: the extremes.
VALUES: dict[str, list[str]] = {
    "bool": ["true", "false"],
    "int2": ["-32768", "32767"],
    "int4": ["-2147483648", "2147483647"],
    "int8": ["-9223372036854775808", "9223372036854775807"],
    "float4": ["NaN", "-Infinity", "1e-45", "3.4028235e38", "-0"],
    "float8": ["NaN", "Infinity", "5e-324", "1.7976931348623157e308", "0.1"],
    "numeric": ["NaN", "Infinity", "-Infinity", "1e131071", "1e-16383", "0.000", "-1.50"],
    "money": ["-92233720368547758.08", "92233720368547758.07"],
    "text": ["", "🐘\n\t\\N", "x' \" %"],
    "varchar": ["", " trailing  "],
    "bpchar": ["a  ", ""],
    "name": ["x", ""],
    '"char"': ["x", "\\377"],
    "bytea": ["\\x", "\\x00ff5c27"],
    "bit": ["1"],
    "varbit": ["", "10110"],
    "date": ["-infinity", "infinity", "4713-01-01 BC", "5874897-12-31"],
    "time": ["00:00:00", "24:00:00", "23:59:59.999999"],
    "timetz": ["00:00:00+15:59", "24:00:00-15:59"],
    "timestamp": ["-infinity", "infinity", "4713-01-01 BC", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["-infinity", "infinity", "294276-12-31 23:59:59.999999 UTC"],
    "interval": ["178000000 years", "-1 mon +2 days -03:04:05.678901", "infinity"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "json": ['{"a": 1, "a": [null, "\\u00e9"]}', "null", " 1 "],
    "jsonb": ['{"b": 1e100, "a": "é"}', "null", "[]"],
    "jsonpath": ["$.a[*] ? (@ > 1)"],
    "inet": ["::1/64", "255.255.255.255"],
    "cidr": ["10.0.0.0/8", "::/0"],
    "macaddr": ["ff:ff:ff:ff:ff:ff"],
    "macaddr8": ["00:00:00:00:00:00:00:00"],
    "point": ["(NaN,Infinity)"],
    "lseg": ["[(0,0),(1,1)]"],
    "path": ["((0,0),(1,1))", "[(0,0)]"],
    "box": ["(1,1),(0,0)"],
    "polygon": ["((0,0),(1,1),(1,0))"],
    "line": ["{1,2,3}"],
    "circle": ["<(0,0),1>"],
    "tsvector": ["'a':1A,3 'b c'", ""],
    "tsquery": ["'a' & !( 'b':*C <-> 'c' )"],
    "oid": ["0", "4294967295"],
    "xid": ["4294967295"],
    "xid8": ["18446744073709551615"],
    "cid": ["4294967295"],
    "tid": ["(4294967295,65535)"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF", "0/0"],
    "pg_snapshot": ["10:20:10,14,15"],
    "txid_snapshot": ["10:20:10,14,15"],
    "refcursor": ["c"],
    "int4range": ["empty", "(,)", "[1,5)"],
    "int8range": ["[1,)"],
    "numrange": ["(1.5,2.5]", "(,Infinity)"],
    "daterange": ["[2026-01-01,infinity)"],
    "tsrange": ["(,2026-01-01]"],
    "tstzrange": ["[2026-01-01 00:00:00+00,)"],
    "int4multirange": ["{}", "{[1,2),[5,)}"],
    "int8multirange": ["{[1,2)}"],
    "nummultirange": ["{(1.5,2.5]}"],
    "datemultirange": ["{[2026-01-01,2026-01-02)}"],
    "tsmultirange": ["{(,2026-01-01]}"],
    "tstzmultirange": ["{}"],
    "int4[]": ["{}", "{{1,NULL},{3,4}}", "[-1:0]={1,2}"],
    "text[]": ['{"","NULL",NULL,"\\"é,{}"}'],
    "numeric[]": ["{NaN,1.50}"],
    "timestamptz[]": ["{infinity,NULL}"],
    "jsonb[]": ['{"{\\"a\\": 1}"}'],
    "numeric(38,10)": ["1234567890123456789012345678.0123456789"],
    "numeric(5,-2)": ["1234500"],
    "varchar(3)": ["äöü"],
    "char(5)": ["é"],
    "bit(3)": ["101"],
    "timestamp(3)": ["2026-01-01 00:00:00.123"],
    "time(0)": ["12:34:56"],
    "interval year to month": ["2 years 3 mons"],
    "interval second(2)": ["1.25"],
}
# Their binary form holds object ids, they are no types for columns, or not in every build (xml).
NO_VALUES = {
    "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary", "regproc", "regprocedure", "regoper", "regoperator",
    "regclass", "regcollation", "regtype", "regrole", "regnamespace", "regconfig",
    "regdictionary", "regdatabase", "xml",
}  # fmt: skip


class TestTypes:
    def test_the_table_has_every_built_in_type(self, pair: Pair) -> None:
        known = pair.source.rows(
            "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace"
            " AND typtype IN ('b', 'r', 'm') AND typsend <> 0 AND typreceive <> 0"
            " AND typcategory <> 'A'"
        )
        missing = {name for (name,) in known} - {name.strip('"') for name in VALUES} - NO_VALUES
        assert missing == set()

    def test_every_value_arrives_as_it_was(self, pair: Pair) -> None:
        columns = [f"c{index}" for index in range(len(VALUES))]
        declared = ", ".join(
            f"{column} {type_}" for column, type_ in zip(columns, VALUES, strict=True)
        )
        pair.both(f"CREATE TABLE t (id int, {declared})")
        for row in range(max(map(len, VALUES.values()))):
            literals = [
                "'" + values[row].replace("'", "''") + "'" if row < len(values) else "NULL"
                for values in VALUES.values()
            ]
            pair.source.run(f"INSERT INTO t VALUES ({row}, {', '.join(literals)})")
        pair.source.run("INSERT INTO t VALUES (NULL)")
        pair.copy(strategy="range", key="id", partitions=3)
        pair.assert_same()

    @pytest.mark.parametrize(
        ("mine", "theirs"),
        [
            ("varchar(10)", "varchar(20)"),
            ("varchar(10)", "varchar"),
            ("numeric(10,2)", "numeric(20,4)"),
            ("numeric(10,2)", "numeric"),
            ("timestamp(3)", "timestamp"),
            ("time(0)", "time(3)"),
            ("numeric(10,2)[]", "numeric[]"),
        ],
    )
    def test_a_wider_type_of_the_same_kind_will_do(
        self, pair: Pair, mine: str, theirs: str
    ) -> None:
        pair.source.run(f"CREATE TABLE t (a {mine})", "INSERT INTO t VALUES (NULL)")
        pair.target.run(f"CREATE TABLE t (a {theirs})")
        assert pair.copy().rows == 1

    @pytest.mark.parametrize(
        ("mine", "theirs", "why"),
        [
            ("int4", "int8", "the types differ"),
            ("json", "jsonb", "the types differ"),
            ("timestamp", "timestamptz", "the types differ"),
            ("numeric", "numeric(10,2)", "the target would round"),
            ("numeric(10,4)", "numeric(10,2)", "the target would round"),
            ("numeric[]", "numeric(10,1)[]", "the target would round"),
            ("numeric(10,4)[]", "numeric(10,1)[]", "the target would round"),
            ("timestamp", "timestamp(3)", "the target would round"),
            ("timestamptz(6)[]", "timestamptz(0)[]", "the target would round"),
            ("interval", "interval(0)", "the target would round"),
            ("regclass", "regclass", "object ids of its own server"),
            ("regproc[]", "regproc[]", "object ids of its own server"),
            ("mood[]", "mood[]", "object ids of its own server"),
            ("moods", "moods", "object ids of its own server"),
            ("pair", "pair", "object ids of its own server"),
            ("pairs", "pairs", "object ids of its own server"),
            ("aclitem", "aclitem", ""),
            ("int4", "int4 GENERATED ALWAYS AS (1) STORED", "the target computes this column"),
        ],
    )
    def test_what_would_arrive_changed_is_refused(
        self, pair: Pair, mine: str, theirs: str, why: str
    ) -> None:
        pair.both(
            "CREATE TYPE mood AS ENUM ('sad', 'glad')",
            "CREATE DOMAIN moods AS mood[]",
            "CREATE TYPE pair AS (a int, b mood)",
            "CREATE DOMAIN pairs AS pair",
        )
        pair.source.run(f"CREATE TABLE t (good int, bad {mine})")
        pair.target.run(f"CREATE TABLE t (good int, bad {theirs})")
        with pytest.raises(PlanningError) as caught:
            pair.plan()
        assert why in caught.value.message
        assert "bad" in caught.value.message
        assert "good" not in caught.value.message

    def test_types_of_one_s_own_travel(self, pair: Pair) -> None:
        pair.both(
            "CREATE EXTENSION citext",
            "CREATE EXTENSION hstore",
            "CREATE TYPE mood AS ENUM ('sad', 'glad')",
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            "CREATE TABLE t (a mood, b positive, c citext, d hstore)",
        )
        pair.source.run("INSERT INTO t VALUES ('sad', 1, 'Aa', 'x => NULL')")
        for key in ("a", "c"):
            pair.copy(strategy="values", key=key, mode="truncate")
            pair.assert_same()

    def test_all_columns_that_do_not_fit_come_in_one_table(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (a int, b text, c numeric, only_here int, fits int)")
        pair.target.run(
            "CREATE TABLE t (a bigint, b varchar(9), c numeric(5, 1), only_there int, fits int)",
            "INSERT INTO t (a) VALUES (1)",
        )
        done = pair.cli("copy", *pair.ends, "--table", "public.t")
        assert done.returncode == 65
        lines = [line.removeprefix("penstock:").split() for line in done.stderr.splitlines()]
        for expected in (
            ["column", "source", "target", "why"],
            ["only_here", "integer", "-", "the", "target", "has", "no", "such", "column"],
            ["only_there", "-", "integer", "the", "source", "has", "no", "such", "column"],
            ["a", "integer", "bigint", "the", "types", "differ"],
            ["b", "text", "character", "varying(9)", "the", "types", "differ"],
            ["c", "numeric", "numeric(5,1)", "the", "target", "would", "round"],
        ):
            assert expected in lines
        assert "fits" not in done.stderr
        assert pair.target.count() == 1
        assert not pair.has_control_schema()
