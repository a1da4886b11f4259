"""A file of many tables: the options of each table, and rejected lines."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import make_parser
from penstock.cli.options import batch_words, read_batch, read_spec
from penstock.engine.tables_file import batch_of_file
from penstock.errors import UsageError
from penstock.model.tables import Query, TableRef
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.copy_spec import CopySpec

ENDS = 'source = "env:SHOP"\ntarget = "env:WAREHOUSE"\n'
NIGHTLY = """
[defaults]
mode = "upsert"
incremental = "xmin"
deletes = "hard"

[tables."public.*"]
[tables."public.log_*"]
mode = "append"
[tables."public.orders"]
deletes = "hard,5%"
[tables."public.secrets"]
skip = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.toml"


def read(file: Path, text: str, /, *, ends: str = ENDS, **overrides: Any) -> BatchSpec:
    file.write_text(ends + text, encoding="utf-8")
    return batch_of_file(str(file), overrides, {"HOST": "db"})


def specs(batch: BatchSpec, *tables: str) -> dict[str, CopySpec]:
    """Return the specs by their target's table."""
    found = batch.specs([TableRef.parse(name, "") for name in tables], lambda spec: spec)
    return {str(spec.target_ref): spec for spec in found}


def refused(file: Path, text: str, /, *, ends: str = ENDS, **overrides: Any) -> str:
    def tried() -> None:
        batch = read(file, text, ends=ends, **overrides)
        specs(batch, "public.orders", "public.log_a", "public.log_b_old")

    with pytest.raises(UsageError) as error:
        tried()
    return error.value.message.replace(str(file), "FILE")


def test_the_most_exact_section_decides_option_by_option(file: Path) -> None:
    found = specs(read(file, NIGHTLY), "public.customers", "public.orders", "public.log_a")
    assert (found["public.customers"].mode, found["public.customers"].deletes) == ("upsert", "hard")
    orders = found["public.orders"]
    assert (orders.mode, orders.incremental, orders.deletes) == ("upsert", "xmin", "hard,5%")


def test_another_mode_discards_the_options_of_a_mode(file: Path) -> None:
    (log,) = specs(read(file, NIGHTLY), "public.log_a").values()
    assert (log.mode, log.incremental, log.deletes) == ("append", None, "ignore")
    # The same mode does not.
    same = NIGHTLY + '[tables."public.items"]\nmode = "upsert"\n'
    assert specs(read(file, same), "public.items")["public.items"].incremental == "xmin"
    # Nor does a mode of the command line discard options of sections.
    batch = read(file, NIGHTLY.replace('deletes = "hard,5%"', ""), mode="truncate")
    assert specs(batch, "public.customers")["public.customers"].incremental is None


def test_every_option_of_some_modes_is_discarded() -> None:
    """These are the options that `check_options` rejects with another mode."""
    discarded = {item.name for item in fields(CopySpec) if item.metadata.get("of_mode")}
    values: dict[str, Any] = {
        "conflict_columns": ("a",), "incremental": "xmin", "atomic": "table", "deletes": "hard",
        "atomic_limit": "5", "full_every": 5.0, "watermark": "w", "unlogged": True,
        "partitioning": True,
    }  # fmt: skip
    for name, value in values.items():
        with pytest.raises(UsageError):
            CopySpec(source="env:A", target="env:B", table="a.b", mode="append", **{name: value})
    assert values.keys() <= discarded


def test_a_section_may_exclude_tables(file: Path) -> None:
    found = specs(read(file, NIGHTLY), "public.orders", "public.secrets")
    assert list(found) == ["public.orders"]
    # It is an option like every other: a more specific section may undo it.
    text = (
        '[tables."public.*"]\nmode = "truncate"\nskip = true\n[tables."public.a"]\nskip = false\n'
    )
    assert list(specs(read(file, text), "public.a", "public.b")) == ["public.a"]


def test_names_come_before_patterns_and_longer_patterns_before_shorter_ones(file: Path) -> None:
    text = """
        [tables."public.log_a"]
        attempts = 4
        [tables."*"]
        attempts = 1
        [tables."public.log_*"]
        attempts = 3
        [tables."public.*"]
        attempts = 2
    """
    found = specs(read(file, text), "public.log_a", "public.log_b", "public.c", "sales.d")
    assert [spec.attempts for spec in found.values()] == [4, 3, 2, 1]


def test_a_query_is_named_by_its_target(file: Path) -> None:
    text = NIGHTLY + '[tables."dw.large"]\nquery = "SELECT 1"\nmode = "truncate"\n'
    batch = read(file, text)
    (spec,) = specs(batch).values()
    assert (spec.relation, str(spec.target_ref)) == (Query("SELECT 1"), "dw.large")
    assert spec.mode == "truncate"
    # A pattern that matches its name does not apply.
    assert [str(s.target_ref) for s in batch.named_tables()] == ["dw.large", "public.orders"]


def test_options_of_the_batch_come_before_the_sections(file: Path) -> None:
    batch = read(
        file, 'degree = 3\nmax-rate = "5MB"\ntarget-schema = "dw"\nexclude = ["x_*"]' + NIGHTLY
    )
    assert (batch.degree, batch.max_rate, batch.exclude) == (3, 5_000_000, ("x_*",))
    assert list(specs(batch, "public.orders")) == ["dw.orders"]
    # Options of tables may, too, as in a file for one table.
    batch = read(file, 'mode = "truncate"\n[tables."public.a"]\n')
    assert specs(batch, "public.a")["public.a"].mode == "truncate"


def test_variables_are_filled_in_from_the_environment(file: Path) -> None:
    text = '[tables."public.orders"]\nwhere = "host = \'${HOST}\'"\n'
    assert read(file, text).named_tables()[0].where == "host = 'db'"
    ends = 'source = "${URL}"\ntarget = "env:B"\n'
    file.write_text(ends + text.replace("HOST", "MISSING"), encoding="utf-8")
    with pytest.raises(UsageError, match="environment variable 'URL' is not set"):
        batch_of_file(str(file), {}, {})
    # Loading definitions needs none of the variables.
    with pytest.raises(UsageError, match=r"source: expected env:NAME, .* found a part of the URL"):
        batch_of_file(str(file), {}, None)
    batch = batch_of_file(str(file), {"source": "env:A"}, None)
    assert batch.named_tables()[0].where == "host = '${MISSING}'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tables", ["FILE: invalid TOML", "Expected"]),
        ('[tables."public.orders"]\n[tables."public.orders"]\n', ["FILE: invalid TOML"]),
        ("", ["FILE: expected tables", '[tables."PATTERN"]']),
        ("[tables]\norders = 5\n", ["FILE: tables: expected sections", "orders = 5"]),
        ('[tables." "]\n', ["expected a table or a pattern, found an empty name"]),
        (
            '[tables."public.orders"]\n\nmod = "upsert"\n',
            ['FILE:5: [tables."public.orders"]', "unknown option 'mod'"],
        ),
        (
            '[tables."public.orders"]\nmode = "merge"\n',
            ['FILE:4: [tables."public.orders"]', "--mode: expected one of", "found 'merge'"],
        ),
        (
            '[tables."public.orders"]\nattempts = "many"\n',
            ['FILE:4: [tables."public.orders"]', "--attempts: expected a whole number"],
        ),
        (
            '[tables."public.orders"]\nunlogged = "yes"\n',
            ['FILE:4: [tables."public.orders"]', "--unlogged: expected true or false"],
        ),
        (
            '[tables."public.orders"]\nskip = "yes"\n',
            ["FILE:4:", "skip: expected true or false, found 'yes'"],
        ),
        (
            '[tables."public.orders"]\ndegree = 4\n',
            ["FILE:4:", "degree applies to the whole batch", "above the sections"],
        ),
        ('[tables."public.orders"]\ntable = "a.b"\n', ["FILE:4:", "already names the table"]),
        ('[tables."a.b.c"]\n', ["FILE:3:", "expected NAME or SCHEMA.NAME", "'a.b.c'"]),
        ('[tables."public.*"]\nquery = "SELECT 1"\n', ["FILE:4:", "query applies to one table"]),
        (
            '[tables."public.*"]\ntarget-table = "dw.a"\n',
            ["target_table applies to one table"],
        ),
        (
            '[tables."public.orders"]\nfull-every = "5d"\nfull_every = "6d"\n',
            ["FILE:5:", "appears twice, with '-' and with '_'"],
        ),
        (
            '[tables."public.orders"]\ndeletes = "hard"\n',
            ['FILE:3: [tables."public.orders"]', "--deletes hard: expected --incremental"],
        ),
        (
            '[tables."public.*"]\ndeletes = "hard"\n',
            ['FILE:3: [tables."public.*"]: public.orders: --deletes hard'],
        ),
        (
            '[tables."public.log_*"]\nmode = "truncate"\n'
            '[tables."public.*_old"]\nmode = "append"\n',
            [
                "FILE:5: [tables.\"public.*_old\"]: mode: 'append' conflicts with 'truncate' in "
                'FILE:3: [tables."public.log_*"], which matches public.log_b_old just as',
                'decide in [tables."public.log_b_old"]',
            ],
        ),
        (
            '[tables."public.orders"]\n[tables."public.items"]\ntarget-table = "public.orders"\n',
            ["two tables would be copied to public.orders"],
        ),
        ('[defaults]\ncolour = "red"\n[tables."a.b"]\n', ["FILE:4: [defaults]", "'colour'"]),
        ('[defaults]\ndegree = 4\n[tables."a.b"]\n', ["FILE:4: [defaults]", "whole batch"]),
        ('[defaults]\nquery = "x"\n[tables."a.b"]\n', ["FILE:4:", "the section of a table"]),
        ('defaults = 5\n[tables."a.b"]\n', ["FILE: defaults: expected a section", "found 5"]),
        (
            'mode = "truncate"\n[defaults]\nmode = "append"\n[tables."a.b"]\n',
            ["FILE:5: [defaults]: mode is also set above [defaults]"],
        ),
        ('[tables."a.b"]\n[[table]]\ntable = "a.c"\n', ["found both"]),
        ('colour = "red"\n[tables."a.b"]\n', ["FILE: unknown option 'colour'"]),
    ],
)
def test_errors_have_the_line_and_the_reason(file: Path, text: str, words: list[str]) -> None:
    message = refused(file, text)
    for word in words:
        assert word in message


def test_a_conflict_settled_by_a_more_specific_section_is_accepted(file: Path) -> None:
    text = """
        [tables."public.log_*"]
        mode = "truncate"
        [tables."public.*_old"]
        mode = "append"
        [tables."public.log_b_old"]
        mode = "swap"
    """
    assert specs(read(file, text), "public.log_b_old")["public.log_b_old"].mode == "swap"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://loader:s3cret@dw/warehouse",
        "postgresql://dw/warehouse?password=s3cret",
        "mysql://loader:s3cret@dw/warehouse",
    ],
)
def test_a_secret_in_the_file_is_rejected(file: Path, url: str) -> None:
    ends = f'source = "env:SHOP"\ntarget = "{url}"\n'
    message = refused(file, '[tables."a.b"]\n', ends=ends)
    assert "FILE: target: expected a URL without a secret" in message
    assert "env:NAME" in message
    assert "s3cret" not in message
    # A secret from the environment is accepted, and so is an unused one.
    ends = ends.replace("s3cret", "${HOST}")
    assert read(file, '[tables."a.b"]\n', ends=ends).target == url.replace("s3cret", "db")
    read(file, '[tables."a.b"]\n', ends=ends.replace("${HOST}", "s3cret"), target="env:B")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: expected a TOML file.*No such file"):
        batch_of_file(str(tmp_path / "nowhere.toml"))


def command(*words: str) -> Any:
    return make_parser(words[0]).parse_args(words)


def test_the_command_line_overrides_common_options(file: Path) -> None:
    file.write_text(
        ENDS
        + NIGHTLY.replace("[defaults]", "[defaults]\nattempts = 7")
        + '[tables."public.items"]\n',
        encoding="utf-8",
    )
    arguments = command("copy-all", str(file), "--attempts", "2", "--tables", "public.o*")
    batch = read_batch(arguments, {})
    assert batch.tables == ("public.o*",)
    found = specs(batch, "public.orders", "public.items")
    assert (found["public.items"].attempts, found["public.orders"].attempts) == (2, 2)
    words = batch_words(arguments)
    assert words == [str(file), "--attempts", "2", "--tables", "public.o*"]


def test_the_file_in_the_folder_is_found_by_default(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    with pytest.raises(UsageError, match=re.escape("expected --source, --target; found none")):
        read_batch(command("copy-all", "--tables", "public.*"), {})
    file.write_text(ENDS + NIGHTLY, encoding="utf-8")
    arguments = command("copy-all", "--tables", "public.*")
    assert read_batch(arguments, {}).sections
    assert batch_words(arguments)[0] == "penstock.toml"
    named = ("--source", "env:A", "--target", "env:B", "--tables", "public.*")
    assert not read_batch(command("copy-all", *named), {}).sections


def test_a_command_for_one_table_names_the_one_for_many(file: Path) -> None:
    file.write_text(ENDS + NIGHTLY, encoding="utf-8")
    with pytest.raises(UsageError, match="lists many tables; use penstock copy-all"):
        read_spec(command("copy", str(file)), {})


def test_column_rules_are_overridden_column_by_column(file: Path) -> None:
    text = """
        [defaults]
        mask = {"*email" = "hash", phone = "null"}
        [tables."public.*"]
        [tables."public.customers".mask]
        phone = "last4"
        name = "null"
    """
    found = specs(read(file, text), "public.customers", "public.others")
    assert found["public.others"].mask == ("*email=hash", "phone=null")
    # A common mask stays if a section adds another.
    assert found["public.customers"].mask == ("*email=hash", "phone=last4", "name=null")


SECRETS = {
    "PGPASSWORD": "hunter2",
    "MYSQL_PWD": "hunter3",
    "CLICKHOUSE_PASSWORD": "hunter4",
    "SNOWFLAKE_PASSWORD": "hunter5",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "hunter6",
    "HOST": "db",
    "SHOP": "postgresql://app:hunter7@db/shop",
}


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("postgresql://app@other.example/shop", "PGPASSWORD"),
        ("postgresql:///shop?host=other.example", "PGPASSWORD"),
        ("postgresql://app@other.example/shop?sslmode=verify-full&sslrootcert=x", "PGPASSWORD"),
        ("mysql://app@other.example/shop", "MYSQL_PWD"),
        ("postgresql://app@other.example/shop?auth=command:id", "what a command of its choice"),
        ("clickhouse://app@other.example/shop", "CLICKHOUSE_PASSWORD"),
        ("snowflake://app@other/shop/public", "SNOWFLAKE_PASSWORD"),
        ("postgresql://app:${AWS_SECRET_ACCESS_KEY}@other.example/shop", "AWS_SECRET_ACCESS_KEY"),
        ("postgresql://app@${HOST}/shop?host=other.example&user=${SHOP}", "HOST"),
    ],
)
@pytest.mark.parametrize("end", ["source", "target"])
def test_a_found_file_sends_no_password_to_a_server_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, sent: str, end: str
) -> None:
    other = "target" if end == "source" else "source"
    (tmp_path / "penstock.toml").write_text(
        f'{end} = "{url}"\n{other} = "env:SHOP"\n[tables."a.*"]\n'
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        read_batch(command("copy-all"), SECRETS)
    assert f"penstock.toml: {end}: expected a server that the command or the environment names" in (
        caught.value.message
    )
    assert sent in caught.value.message
    assert "hunter" not in caught.value.message
    # What the message advises.
    assert read_batch(command("copy-all", "penstock.toml"), SECRETS).sections
    if end == "target":
        named = command("copy-all", "--target", "postgresql://app@mine/shop")
        assert read_batch(named, SECRETS).sections
    for reference in ("env:SHOP", "file:/run/secrets/shop"):
        (tmp_path / "penstock.toml").write_text(
            f'{end} = "{reference}"\n{other} = "env:SHOP"\n[tables."a.*"]\n'
        )
        assert read_batch(command("copy-all"), SECRETS).sections


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("postgresql://app@other.example/shop", {}),
        ("postgresql://app:${PW}@${HOST}/shop", {"PW": "hunter2", "HOST": "db"}),
        ("${SHOP}", SECRETS),
        ("s3://lake/orders/", SECRETS),
        ("duckdb:////tmp/shop.duckdb", SECRETS),
        ("./orders", SECRETS),
    ],
)
def test_a_found_file_may_name_a_server_that_gets_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, environ: dict[str, str]
) -> None:
    (tmp_path / "penstock.toml").write_text(f'source = "{url}"\ntarget = "{url}"\n[tables."a.*"]\n')
    monkeypatch.chdir(tmp_path)
    assert read_batch(command("copy-all"), environ).sections
