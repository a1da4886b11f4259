"""CopySpec and WorkerSpec: rejected values and their messages, stored forms, differences."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.model.tables import ColumnPair, Query, TableRef
from penstock.spec.copy_spec import CopySpec, stored_target
from penstock.spec.degrees import Streams
from penstock.spec.ids import check_run_id
from penstock.spec.option import derived
from penstock.spec.references import is_reference, redact, resolve_reference
from penstock.spec.terms import as_arguments
from penstock.spec.units import parse_duration, parse_size
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.degree import resolve_degree

SECRET = "correct-horse"
SOURCE = f"scheme://me:{SECRET}@db.example.org/shop?sslpassword={SECRET}"


def spec(**options: Any) -> CopySpec:
    given_: dict[str, Any] = {"source": SOURCE, "target": SOURCE, "table": "public.orders"}
    return CopySpec(**{**given_, **options})


# Options, and the parts of the message: the option, the expected and the found value.
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"table": ""}, ["--table", "expected NAME or SCHEMA.NAME", "found ''"]),
    ({"table": "a.b.c"}, ["--table", "expected NAME or SCHEMA.NAME", "found 'a.b.c'"]),
    ({"table": "a."}, ["--table", "expected NAME or SCHEMA.NAME", "found 'a.'"]),
    ({"table": '"a.b'}, ["--table", "double quotes", "found '\"a.b'"]),
    ({"table": '"a"b.c'}, ["--table", "found '\"a\"b.c'"]),
    ({"target_table": "x."}, ["--target-table", "expected NAME or", "found 'x.'"]),
    (
        {"strategy": "random"},
        [
            "--strategy",
            "auto, blocks, ctid, range, ntile, hash, values, time, children, files, whole",
            "found 'random'",
        ],
    ),
    ({"mode": "merge"}, ["--mode", "append, truncate, replace", "found 'merge'"]),
    ({"snapshot": "yes"}, ["--snapshot", "shared, none", "found 'yes'"]),
    (
        {"on_snapshot_lost": "retry"},
        ["--on-snapshot-lost", "fail, restart, accept", "found 'retry'"],
    ),
    ({"on_error": "ignore"}, ["--on-error", "stop, continue", "found 'ignore'"]),
    ({"partitions": 0}, ["--partitions", "expected at least 1", "found 0"]),
    ({"partitions": "-1 rows"}, ["--partitions", "expected at least 1", "found -1"]),
    ({"partitions": "0MB"}, ["--partitions", "expected at least 1", "found 0"]),
    ({"partitions": "many"}, ["--partitions", "'500000 rows' or 64MB", "found 'many'"]),
    ({"partitions": True}, ["--partitions", "expected a number of partitions", "found True"]),
    ({"deletes": "gone"}, ["--deletes", "expected ignore, hard, soft", "found 'gone'"]),
    ({"deletes": "hard,few"}, ["--deletes", "expected a percentage", "found 'few'"]),
    ({"deletes": "hard,101%"}, ["--deletes", "expected a percentage", "found '101%'"]),
    ({"deletes": "ignore,5%"}, ["--deletes", "ignore deletes nothing", "found 'ignore,5%'"]),
    ({"atomic_limit": "5,swap"}, ["--atomic-limit", "',fail'", "found '5,swap'"]),
    ({"atomic_limit": "lots"}, ["--atomic-limit", "expected a number of rows", "found 'lots'"]),
    ({"attempts": 0}, ["--attempts", "expected at least 1", "found 0"]),
    ({"stall_timeout": -1.0}, ["--stall-timeout", "expected at least 0", "found -1.0"]),
    ({"grace": -0.5}, ["--grace", "expected at least 0", "found -0.5"]),
    ({"give_way_after": -2.0}, ["--give-way-after", "expected at least 0", "found -2.0"]),
    ({"run_id": ""}, ["run id", "expected 1 to 36 letters", "found ''"]),
    ({"run_id": "a:b"}, ["run id", "expected 1 to 36 letters", "found 'a:b'"]),
    ({"run_id": "-a"}, ["run id", "starting with a letter or digit", "found '-a'"]),
    ({"run_id": "x" * 37}, ["run id", "expected 1 to 36", "xxx"]),
    ({"control_schema": ""}, ["--control-schema", "expected a name", "found an empty string"]),
    ({"columns": ()}, ["--columns", "expected one or more names", "found an empty one"]),
    ({"columns": ("a", "")}, ["--columns", "expected one or more names", "found an empty one"]),
    ({"types": ("a",)}, ["--types", "expected NAME=TYPE", "found 'a'"]),
    ({"types": ("=int",)}, ["--types", "expected NAME=TYPE", "found '=int'"]),
    ({"compression": "rar"}, ["--compression", "zstd, snappy, gzip, lz4, none", "found 'rar'"]),
    ({"file_size": 0}, ["--file-size", "expected at least 1", "found 0"]),
    ({"strategy": "hash"}, ["--strategy hash", "expected --key", "found none"]),
    ({"strategy": "values"}, ["--strategy values", "expected --key", "found none"]),
    ({"strategy": "time"}, ["--strategy time", "expected --key", "found none"]),
    (
        {"strategy": "ctid", "key": "id"},
        [
            "--strategy ctid uses no key",
            "omit --key, or use a strategy that partitions by one",
        ],
    ),
    (
        {"strategy": "whole", "key": "id"},
        [
            "--strategy whole uses no key",
            "omit --key, or use a strategy that partitions by one",
        ],
    ),
    (
        {"strategy": "range", "key": "at", "interval": "1 day"},
        ["--interval: expected --strategy time, found range"],
    ),
    (
        {"strategy": "range", "key": "at", "values_query": "SELECT 1"},
        ["--values-query: expected --strategy values, found range"],
    ),
    ({"interval": "1 day"}, ["--interval", "expected --key", "found none"]),
    ({"values_query": "SELECT 1"}, ["--values-query", "expected --key", "found none"]),
    (
        {"on_snapshot_lost": "restart"},
        ["--on-snapshot-lost restart", "expected --mode truncate, replace", "found append"],
    ),
]


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "parts"), WRONG, ids=[str(options) for options, _ in WRONG]
    )
    def test_name_the_option_the_expected_and_the_found_value(
        self, options: dict[str, Any], parts: list[str]
    ) -> None:
        with pytest.raises(UsageError) as caught:
            spec(**options)
        for part in parts:
            assert part in caught.value.message
        assert caught.value.exit_code == 64

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"degree": "many"}, "--degree: expected auto or a whole number, found 'many'"),
            ({"degree": 1.5}, "--degree: expected auto or a whole number, found 1.5"),
            ({"degree": "auto:4"}, "--degree: expected auto or a whole number, found 'auto:4'"),
            ({"max_rate": "fast"}, "--max-rate: expected a size such as 64MB or 1GB, found 'fast'"),
            (
                {"max_lag": "long"},
                "--max-lag: expected a duration such as 90s, 10m or 1h, found 'long'",
            ),
            ({"row_group_size": 1.5}, "--row-group-size: expected a whole number, found 1.5"),
            ({"where": 1}, "--where: expected a string, found 1"),
            ({"unlogged": "no"}, "--unlogged: expected true or false, found 'no'"),
            ({"columns": 3}, "--columns: expected names separated by commas, found 3"),
            ({"mode": None}, "--mode: expected a string, found None"),
            ({"source": Path("hidden")}, "--source: expected a string, found PosixPath"),
            ({"target": None}, "--target: expected a string, found NoneType"),
        ],
    )
    def test_cover_values_of_another_type(self, options: dict[str, Any], problem: str) -> None:
        with pytest.raises(UsageError) as caught:
            spec(**options)
        assert caught.value.message == problem

    def test_cover_a_column_listed_twice(self) -> None:
        with pytest.raises(UsageError, match=r"--columns.*'id'"):
            spec(columns=("id", "name", "id"))

    @pytest.mark.parametrize(
        "raw",
        [
            {"strategie": "range"},
            {"degree": "many"},
            {"degree": True},
            {"degree": 1.5},
            {"partitions": "1e3"},
            {"columns": [1, 2]},
            {"columns": 3},
            {"where": 7},
            {"partitions": "64 apples"},
            {"stall_timeout": "soon"},
            {"unlogged": "yes"},
            {"table": None},
        ],
        ids=str,
    )
    def test_of_a_mapping_name_the_option_and_the_found_value(self, raw: dict[str, Any]) -> None:
        whole = {"source": SOURCE, "target": SOURCE, "table": "public.orders", **raw}
        with pytest.raises(UsageError) as caught:
            CopySpec.from_mapping(whole, "orders.toml")
        ((name, value),) = raw.items()
        assert name.replace("_", "-") in caught.value.message.replace("_", "-")
        assert any(word in caught.value.message for word in ("expected", "did you mean"))
        assert repr(value) in caught.value.message or name == "strategie"
        assert SECRET not in caught.value.message

    @pytest.mark.parametrize("missing", ["source", "target"])
    def test_of_a_mapping_name_a_missing_option(self, missing: str) -> None:
        raw = {"source": SOURCE, "target": SOURCE, "table": "public.orders"}
        del raw[missing]
        with pytest.raises(UsageError, match=rf"orders.toml: expected --{missing}; found none"):
            CopySpec.from_mapping(raw, "orders.toml")


class TestMapping:
    def test_reads_every_option_in_either_spelling(self) -> None:
        spec = CopySpec.from_mapping(
            {
                "source": SOURCE,
                "target": "env:TARGET",
                "table": "public.orders",
                "target-table": "public.copy",
                "columns": "id, name ,at",
                "strategy": "range",
                "key": "id",
                "partitions": "1.5 MiB",
                "degree": "-2",
                "data-only": True,
                "stall_timeout": "10m",
                "attempts": 7,
            },
            "orders.toml",
        )
        assert spec == CopySpec(
            source=SOURCE,
            target="env:TARGET",
            table="public.orders",
            target_table="public.copy",
            columns=("id", "name", "at"),
            strategy="range",
            key="id",
            partitions="1.5 MiB",
            degree=-2,
            data_only=True,
            stall_timeout=600.0,
            attempts=7,
        )

    def test_texts_have_the_same_meaning_as_on_a_command_line(self) -> None:
        texts: dict[str, Any] = {
            "columns": "id, a", "partition_by": "a", "types": "id=numeric(9,2), a=text",
            "file_size": "64MB", "stall_timeout": "2m", "degree": "3",
        }  # fmt: skip
        assert spec(**texts) == spec(
            columns=("id", "a"), partition_by=("a",), types=("id=numeric(9,2)", "a=text"),
            file_size=64_000_000, stall_timeout=120.0, degree=3,
        )  # fmt: skip
        wrong_columns: Any = {"id": "bigint"}
        assert spec(types=wrong_columns).types == ("id=bigint",)

    def test_a_list_of_columns_is_accepted(self) -> None:
        assert spec(columns=["a", "b"]).columns == ("a", "b")


class TestSizesAndDurations:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("1", 1), (64, 64), ("10B", 10), ("2k", 2000), ("2 KB", 2000), ("2KiB", 2048),
            ("64MB", 64_000_000), ("1.5 GiB", 3 << 29), ("2T", 2 * 10**12), ("2Ti", 2 << 40),
            ("1.1MB", 1_100_000),
        ],
    )  # fmt: skip
    def test_a_size_is_read(self, text: Any, size: int) -> None:
        assert parse_size(text, "--x") == size

    @pytest.mark.parametrize(
        "text", ["", "MB", "1iB", "-1", "1e3", "64 apples", "1,5MB", "1 2", "0x10"]
    )
    def test_an_invalid_size_is_rejected(self, text: str) -> None:
        with pytest.raises(UsageError, match=r"--x: expected a size such as 64MB or 1GB, found "):
            parse_size(text, "--x")

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("1", 1.0), (2.5, 2.5), ("250ms", 0.25), ("90s", 90.0), ("10m", 600.0),
            ("10 min", 600.0), ("1.5h", 5400.0), ("1D", 86400.0), (0, 0.0),
        ],
    )  # fmt: skip
    def test_a_duration_is_read(self, text: Any, seconds: float) -> None:
        assert parse_duration(text, "--x") == seconds

    @pytest.mark.parametrize("text", ["", "s", "-1s", "1 year", "1:30", "inf", "nan"])
    def test_an_invalid_duration_is_rejected(self, text: str) -> None:
        with pytest.raises(UsageError, match=r"--x: expected a duration such as 90s, 10m or 1h"):
            parse_duration(text, "--x")

    @pytest.mark.parametrize(
        ("degree", "cpus", "streams"),
        [(3, 8, 3), (0, 8, 8), (-2, 8, 4), (-3, 8, 2), (-9, 8, 1), (0, 1, 1), (100, 2, 100)],
    )
    def test_a_degree_is_read(self, degree: int, cpus: int, streams: int) -> None:
        assert resolve_degree(degree, cpus) == Streams(streams, streams)

    @pytest.mark.parametrize(
        ("cpus", "usual", "most"), [(1, 1, 8), (2, 2, 8), (4, 4, 16), (16, 16, 64), (128, 128, 128)]
    )
    def test_an_automatic_degree_is_read(self, cpus: int, usual: int, most: int) -> None:
        assert resolve_degree("auto", cpus) == Streams(usual, most, automatic=True)


class TestTableRef:
    @pytest.mark.parametrize(
        ("text", "schema", "name"),
        [
            ("public.orders", "public", "orders"),
            ("  public.orders ", "public", "orders"),
            ('"public".orders', "public", "orders"),
            ('public."a.b"', "public", "a.b"),
            ('"say ""hi"""."x"', 'say "hi"', "x"),
            ("Schéma.Tàble", "Schéma", "Tàble"),
            ("public.Order Lines", "public", "Order Lines"),
        ],
    )
    def test_a_table_name_is_parsed(self, text: str, schema: str, name: str) -> None:
        assert TableRef.parse(text, "--table") == TableRef(schema, name)

    @given(st.builds(TableRef, st.text(min_size=1), st.text(min_size=1)))
    def test_the_text_of_a_table_name_is_parsed_again(self, ref: TableRef) -> None:
        assert TableRef.parse(str(ref), "--table") == ref

    @given(st.text())
    def test_any_text_is_parsed_or_rejected_with_a_reason(self, text: str) -> None:
        message = ""
        try:
            ref = TableRef.parse(text, "--table")
        except UsageError as error:
            message = error.message
        assert message.startswith("--table: expected NAME or SCHEMA.NAME") or ref.name


class TestSecrets:
    def test_the_repr_has_none(self) -> None:
        assert SECRET not in repr(spec())
        assert SECRET not in repr(worker_spec())

    def test_the_stored_form_has_none(self) -> None:
        stored = spec().stored()
        assert SECRET not in repr(stored)
        assert stored["source"] == "scheme://me@db.example.org/shop?sslpassword=***"

    def test_a_reference_is_stored_unresolved(self) -> None:
        assert spec(source="env:SHOP").stored()["source"] == "env:SHOP"


class TestStored:
    def test_survives_a_round_trip(self) -> None:
        mine = spec(columns=("a", "b"), strategy="range", key="a", partitions=3, degree=2)
        again = CopySpec.from_stored(mine.stored(), SOURCE, SOURCE)
        assert again.differences(mine.stored()) == []
        assert again.stored() == mine.stored()

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, TableRef("public", "orders")),
            ({"target_table": 'sales."a.b"'}, TableRef("sales", "a.b")),
            ({"table": None, "query": "SELECT 1", "target_table": "t"}, TableRef("", "t")),
            ({"table": None}, TableRef("", "target")),
        ],
    )
    def test_its_target_is_that_of_the_spec(
        self, options: dict[str, Any], expected: TableRef
    ) -> None:
        mine = spec(**options)
        assert stored_target(mine.stored()) == expected == mine.target_ref

    def test_ignores_fields_of_a_newer_version(self) -> None:
        stored = {**spec().stored(), "colour": "green"}
        assert CopySpec.from_stored(stored, SOURCE, SOURCE).differences(stored) == []

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("where", "id > 7"),
            ("columns", ("id",)),
            ("strategy", "ctid"),
            ("partitions", 9),
            ("mode", "truncate"),
            ("target_table", "public.copy"),
            ("snapshot", "none"),
            ("partitions", "9 rows"),
            ("control_schema", "other"),
        ],
    )
    def test_differences_name_each_option_and_both_values(self, option: str, value: Any) -> None:
        before = spec().stored()
        changed = spec(**{option: value})
        (line,) = changed.differences(before)
        assert line.startswith("--" + option.replace("_", "-") + ": the run has ")
        assert repr(before[option]) in line
        assert line.endswith(f"found {changed.stored()[option]!r}")

    def test_execution_options_may_differ(self) -> None:
        changed = spec(
            source="env:A", target="env:B", degree=9, attempts=1, on_error="continue",
            stall_timeout=1.0, grace=1.0, give_way_after=1.0, run_id="again",
            on_snapshot_lost="accept",
        )  # fmt: skip
        assert changed.differences(spec().stored()) == []

    def test_the_same_size_and_another_limit_are_no_difference(self) -> None:
        night = {"mode": "upsert", "atomic": "table"}
        before = spec(**night, partitions="1MB", deletes="hard").stored()
        same = spec(**night, partitions="1000 KB", deletes="hard,100%")
        assert same.differences(before) == []
        (line,) = spec(**night, partitions="1MB", deletes="soft").differences(before)
        assert line == "--deletes: the run has 'hard', found 'soft'"

    def test_what_planning_derives_is_not_checked(self) -> None:
        asked = spec(exclude_columns=("a",))
        assert asked.excludes("a")
        made = derived(asked, columns=("b",), strategy="files")
        assert (made.columns, made.exclude_columns, made.partition_strategy.name) == (
            ("b",),
            ("a",),
            "files",
        )
        assert asked.columns is None

    def test_the_same_table_in_another_spelling_is_no_difference(self) -> None:
        quoted = spec(table='"public".orders', target_table="public.orders")
        assert quoted.differences(spec().stored()) == []

    def test_every_option_is_either_of_the_copy_or_of_its_execution(self) -> None:
        assert all(isinstance(item.metadata["execution"], bool) for item in fields(CopySpec))
        assert all(item.metadata["help"] for item in fields(CopySpec))


class TestReferences:
    def test_env_reads_the_environment(self) -> None:
        assert resolve_reference("env:SHOP", {"SHOP": SOURCE}, "--source") == SOURCE
        assert resolve_reference(SOURCE, {}, "--source") == SOURCE

    @pytest.mark.parametrize("environ", [{}, {"SHOP": ""}])
    def test_env_names_an_unset_variable(self, environ: dict[str, str]) -> None:
        with pytest.raises(UsageError, match=r"--source: environment variable 'SHOP' is not set"):
            resolve_reference("env:SHOP", environ, "--source")

    @pytest.mark.parametrize(
        "reference",
        [
            SECRET,
            f"host=db password={SECRET}",
            f"//me:{SECRET}@db",
            f"env:scheme://me:{SECRET}@db/shop",
            "env:SHOP",
        ],
    )
    def test_a_malformed_one_is_rejected_without_showing_its_text(self, reference: str) -> None:
        with pytest.raises(UsageError) as caught:
            resolve_reference(reference, {"SHOP": f"password={SECRET}"}, "--source")
        assert caught.value.message.startswith("--source: ")
        assert SECRET not in caught.value.message


class TestAFileWithTheUrl:
    @pytest.mark.parametrize("end", ["", "\n", "\r\n"])
    def test_is_read_without_the_line_end(self, tmp_path: Path, end: str) -> None:
        (tmp_path / "shop").write_bytes(f"{SOURCE}{end}".encode())
        assert resolve_reference(f"file:{tmp_path}/shop", {}, "--source") == SOURCE

    def test_is_read_again_each_time(self, tmp_path: Path) -> None:
        (tmp_path / "shop").write_text(SOURCE)
        resolve_reference(f"file:{tmp_path}/shop", {}, "--source")
        (tmp_path / "shop").write_text(f"{SOURCE}2")
        assert resolve_reference(f"file:{tmp_path}/shop", {}, "--source") == f"{SOURCE}2"

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (None, "No such file or directory"),
            (b"", "found an empty one"),
            (b"\n", "found an empty one"),
            (SECRET.encode(), "found a text without a scheme"),
            (f"{SOURCE}\n{SECRET}\n".encode(), "found more than one line"),
            (SOURCE.encode() + b"\xff", "found bytes that are not UTF-8"),
            (SOURCE.encode() + b"x" * 70_000, "found more than one line"),
        ],
    )
    def test_is_named_but_not_shown_if_it_is_wrong(
        self, tmp_path: Path, content: bytes | None, problem: str
    ) -> None:
        path = tmp_path / "shop"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            resolve_reference(f"file:{path}", {}, "--source")
        assert caught.value.message == (
            f"--source: {path}: expected a file that holds a URL{':' if content is None else ','} "
            + problem
        )

    def test_must_be_readable(self, tmp_path: Path) -> None:
        path = tmp_path / "shop"
        path.write_text(SOURCE)
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("root reads every file")
        with pytest.raises(UsageError, match=r"shop: expected a file .*: Permission denied"):
            resolve_reference(f"file:{path}", {}, "--source")

    def test_is_neither_a_folder_nor_a_pipe(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(UsageError, match="found a folder or a device"):
                resolve_reference(f"file:{path}", {}, "--source")

    @pytest.mark.parametrize(
        "reference",
        [
            f"file:{SECRET}",
            f"file:./{SECRET}",
            f"file:~/{SECRET}",
            f"file:/me:{SECRET}@h/x",
            f"file:/h/x?p={SECRET}",
        ],
    )
    def test_has_an_absolute_path(self, reference: str) -> None:
        with pytest.raises(UsageError, match="file:/PATH with the absolute path") as caught:
            resolve_reference(reference, {}, "--source")
        assert SECRET not in caught.value.message
        assert redact(reference) == "***"

    def test_is_shown_by_its_path_and_two_slashes_are_a_url(self) -> None:
        assert redact("file:/run/secrets/shop") == "file:/run/secrets/shop"
        assert is_reference("file:/run/credentials/copy@shop.service/url")
        assert not is_reference("file:///lake/orders/")
        assert resolve_reference("file:///lake/o/", {}, "--source") == "file:///lake/o/"


class TestRunId:
    @given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,35}", fullmatch=True))
    def test_fits_into_an_application_name(self, run_id: str) -> None:
        check_run_id(run_id)
        # 10 characters for a partition, and an attempt of up to 5 digits.
        assert len(f"penstock:{run_id}:{'p' * 10}:99999") <= 63

    @pytest.mark.parametrize("run_id", ["a b", "a/b", "a\n", "é", "a'b", '"', "a%", "🐘"])
    def test_is_rejected_if_it_is_ambiguous(self, run_id: str) -> None:
        with pytest.raises(UsageError, match="run id: expected"):
            check_run_id(run_id)


def worker_spec() -> WorkerSpec:
    return WorkerSpec(
        run_id="r1",
        generation=1,
        series="",
        source=SOURCE,
        target=SOURCE,
        source_backend="a:b",
        target_backend="c:d",
        relation=TableRef("public", "orders"),
        target_table=TableRef('q"', "a.b"),
        pairs=(ColumnPair("id", "ID"), ColumnPair("näme", "name", "text")),
        format="binary",
        conflict_columns=(),
        volatile=False,
        where="x = '\n'",
        mode="append",
        schema="",
        writing={"file_size": 5, "partition_by": ["day"]},
        snapshot=None,
        stall_timeout=600.0,
        grace=10.0,
        control_schema="penstock",
    )


class TestWorkerSpec:
    @given(
        st.builds(
            WorkerSpec,
            run_id=st.text(),
            source=st.text(),
            target=st.text(),
            source_backend=st.text(),
            target_backend=st.text(),
            relation=st.builds(TableRef, st.text(), st.text()) | st.builds(Query, st.text()),
            target_table=st.builds(TableRef, st.text(), st.text()),
            pairs=st.lists(st.builds(ColumnPair, st.text(), st.text(), st.text())).map(tuple),
            format=st.text(),
            conflict_columns=st.lists(st.text()).map(tuple),
            volatile=st.booleans(),
            where=st.none() | st.text(),
            mode=st.text(),
            schema=st.text(),
            writing=st.dictionaries(st.text(), st.integers() | st.lists(st.text())),
            snapshot=st.none() | st.text(),
            stall_timeout=st.floats(0, 1e9),
            grace=st.floats(0, 1e9),
            control_schema=st.text(),
        )
    )
    def test_is_sent_as_one_line(self, spec: WorkerSpec) -> None:
        line = spec.to_line()
        assert line.isascii()
        assert len(line.splitlines()) == 1
        assert WorkerSpec.from_line(line) == spec


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "--conflict-columns goes with --mode upsert, not --nonsense or a--b",
            'conflict_columns goes with mode="upsert", not --nonsense or a--b',
        ),
        (
            "expected --on-snapshot-lost accept (read the rest as of now) or restart",
            'expected on_snapshot_lost="accept" (read the rest as of now) or restart',
        ),
        (
            "expected --mode truncate, replace, recreate or swap, found append",
            'expected mode="truncate", "replace", "recreate" or "swap", found append',
        ),
        ("expected --unlogged, found none", "expected unlogged=True, found none"),
        ("expected --key, or --where; --only p1", "expected key, or where; only p1"),
        (
            "--exclude: a.* leaves out all of --tables a.b (--on-table-error stop)",
            'exclude: a.* leaves out all of tables a.b (on_table_error="stop")',
        ),
        (
            "--deletes hard,5%,100: allow more: --deletes hard,100%, or omit --deletes",
            'deletes="hard,5%,100": allow more: deletes="hard,100%", or omit deletes',
        ),
        ("--deletes soft:gone_at, --deletes both", 'deletes="soft:gone_at", deletes both'),
        (
            "try --partitions 32 or --degree 8, not --partitions 5 rows: --degree: 0",
            'try partitions=32 or degree=8, not partitions="5 rows": degree: 0',
        ),
        ("--key a.b: expected bounds; --key, --key: x", 'key="a.b": expected bounds; key, key: x'),
        (
            "--incremental xmin needs --incremental at,id: x",
            'incremental="xmin" needs incremental="at,id": x',
        ),
        (
            "--set a: --exclude-columns conflict: pass one",
            "set a: exclude_columns conflict: pass one",
        ),
        ("the output of `penstock control-ddl --mode swap`", None),
        ("the mode append of a --table", "the mode append of a table"),
    ],
)
def test_flags_become_arguments(message: str, expected: str | None) -> None:
    assert as_arguments(message) == (expected or message)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ("a", "b")),
        (" a , b c ", ("a", "b c")),
        ('"a,b",c', ("a,b", "c")),
        ('c, "a,b" , "say ""hi"""', ("c", "a,b", 'say "hi"')),
        ('a"b,c', ('a"b', "c")),
        ('" a "', (" a ",)),
    ],
)
def test_names_with_commas_are_quoted(text: str, names: tuple[str, ...]) -> None:
    assert spec(columns=text).columns == names


@pytest.mark.parametrize("text", ['"a', '"a" b', '""'])
def test_unclosed_quotes_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="--columns: expected names separated by commas"):
        spec(columns=text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stall_timeout": "9999999d"}, "--stall-timeout: expected at most 24d"),
        ({"stall_timeout": float("nan")}, "--stall-timeout: expected at most 24d"),
        ({"grace": float("inf")}, "--grace: expected at most 24d"),
        ({"give_way_after": "1e9"}, "--give-way-after: expected a duration"),
        ({"give_way_after": "9" * 400}, "--give-way-after: expected at most 24d"),
        ({"file_size": "99999999999TB"}, "--file-size: expected at most 4611686018427387904"),
        ({"partitions": "9" * 400 + "B"}, "--partitions: expected a number of partitions"),
        ({"partitions": 2**31}, "--partitions: expected at most 2147483647"),
        ({"partitions": f"{10**20} rows"}, "--partitions: expected at most 2147483647"),
        ({"attempts": 10**20}, "--attempts: expected at most 2147483647"),
        ({"degree": 10**20}, "--degree: expected at most 2147483647"),
        ({"degree": -(10**20)}, "--degree: expected at least -2147483647"),
        ({"row_group_size": 10**20}, "--row-group-size: expected at most 2147483647"),
    ],
)
def test_a_number_that_is_too_large_is_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        spec(**options)
