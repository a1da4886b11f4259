"""The tables of TPC-H, made by tpchgen-cli and loaded with COPY."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import psycopg
from psycopg import sql

BLOCK = 1 << 20

# The specification's types. An order key passes an integer's range near scale factor 360.
COLUMNS = {
    "region": """
        r_regionkey integer NOT NULL,
        r_name char(25) NOT NULL,
        r_comment varchar(152)""",
    "nation": """
        n_nationkey integer NOT NULL,
        n_name char(25) NOT NULL,
        n_regionkey integer NOT NULL,
        n_comment varchar(152)""",
    "supplier": """
        s_suppkey integer NOT NULL,
        s_name char(25) NOT NULL,
        s_address varchar(40) NOT NULL,
        s_nationkey integer NOT NULL,
        s_phone char(15) NOT NULL,
        s_acctbal numeric(15,2) NOT NULL,
        s_comment varchar(101) NOT NULL""",
    "customer": """
        c_custkey integer NOT NULL,
        c_name varchar(25) NOT NULL,
        c_address varchar(40) NOT NULL,
        c_nationkey integer NOT NULL,
        c_phone char(15) NOT NULL,
        c_acctbal numeric(15,2) NOT NULL,
        c_mktsegment char(10) NOT NULL,
        c_comment varchar(117) NOT NULL""",
    "part": """
        p_partkey integer NOT NULL,
        p_name varchar(55) NOT NULL,
        p_mfgr char(25) NOT NULL,
        p_brand char(10) NOT NULL,
        p_type varchar(25) NOT NULL,
        p_size integer NOT NULL,
        p_container char(10) NOT NULL,
        p_retailprice numeric(15,2) NOT NULL,
        p_comment varchar(23) NOT NULL""",
    "partsupp": """
        ps_partkey integer NOT NULL,
        ps_suppkey integer NOT NULL,
        ps_availqty integer NOT NULL,
        ps_supplycost numeric(15,2) NOT NULL,
        ps_comment varchar(199) NOT NULL""",
    "orders": """
        o_orderkey bigint NOT NULL,
        o_custkey integer NOT NULL,
        o_orderstatus char(1) NOT NULL,
        o_totalprice numeric(15,2) NOT NULL,
        o_orderdate date NOT NULL,
        o_orderpriority char(15) NOT NULL,
        o_clerk char(15) NOT NULL,
        o_shippriority integer NOT NULL,
        o_comment varchar(79) NOT NULL""",
    "lineitem": """
        l_orderkey bigint NOT NULL,
        l_partkey integer NOT NULL,
        l_suppkey integer NOT NULL,
        l_linenumber integer NOT NULL,
        l_quantity numeric(15,2) NOT NULL,
        l_extendedprice numeric(15,2) NOT NULL,
        l_discount numeric(15,2) NOT NULL,
        l_tax numeric(15,2) NOT NULL,
        l_returnflag char(1) NOT NULL,
        l_linestatus char(1) NOT NULL,
        l_shipdate date NOT NULL,
        l_commitdate date NOT NULL,
        l_receiptdate date NOT NULL,
        l_shipinstruct char(25) NOT NULL,
        l_shipmode char(10) NOT NULL,
        l_comment varchar(44) NOT NULL""",
}
PRIMARY_KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
TABLES = tuple(COLUMNS)


def create(
    conninfo: str,
    tables: Sequence[str] = ("lineitem",),
    *,
    schema: str = "public",
    unlogged: bool = False,
    primary_keys: bool = False,
) -> None:
    """Create empty TPC-H tables.

    Parameters:
        conninfo: URL or connection string of the database.
        tables: their names.
        schema: where to; made if it is missing.
        unlogged: make them unlogged: faster to load, and empty after a crash.
        primary_keys: with the primary keys of the specification.

    Raises:
        ValueError: TPC-H has no table of that name.
        psycopg.Error: the database refused.
    """
    _check(tables)
    with psycopg.connect(conninfo) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        for table in tables:
            kind = "UNLOGGED TABLE" if unlogged else "TABLE"
            connection.execute(
                sql.SQL(f"CREATE {kind} {{}} ({COLUMNS[table]})").format(_name(schema, table))
            )
            if primary_keys:
                _add_primary_key(connection, schema, table)


def load(
    conninfo: str,
    tables: Sequence[str] = ("lineitem",),
    scale: float = 0.01,
    *,
    schema: str = "public",
    unlogged: bool = False,
    primary_keys: bool = False,
) -> dict[str, int]:
    """Create TPC-H tables, fill them, and VACUUM (ANALYZE) them.

    Parameters:
        conninfo: URL or connection string of the database.
        tables: their names.
        scale: the scale factor; 1 is 6,001,215 rows of lineitem and 766 MB of CSV. Below 0.01
            the key of partsupp has duplicates.
        schema: where to; made if it is missing.
        unlogged: make them unlogged: faster to load, and empty after a crash.
        primary_keys: add the primary keys of the specification after the load.

    Returns:
        The number of rows of each table.

    Raises:
        ValueError: TPC-H has no table of that name.
        RuntimeError: the data could not be made.
        psycopg.Error: the database refused.
    """
    create(conninfo, tables, schema=schema, unlogged=unlogged)
    rows: dict[str, int] = {}
    with (
        csv_files(tables, scale) as files,
        psycopg.connect(conninfo, autocommit=True) as connection,
    ):
        for table, path in files.items():
            copy = sql.SQL("COPY {} FROM STDIN (FORMAT csv, HEADER true)").format(
                _name(schema, table)
            )
            with path.open("rb") as file, connection.cursor() as cursor:
                with cursor.copy(copy) as stream:
                    while block := file.read(BLOCK):
                        stream.write(block)
                rows[table] = cursor.rowcount
            if primary_keys:
                _add_primary_key(connection, schema, table)
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(_name(schema, table)))
    return rows


@contextmanager
def csv_files(tables: Sequence[str], scale: float) -> Iterator[dict[str, Path]]:
    """The data of tables as CSV with a header line, one file each.

    It is made once for each scale and kept in $PENSTOCK_CACHE, or else ~/.cache/penstock/tpch;
    where neither can be written it is removed again afterwards.

    Raises:
        ValueError: TPC-H has no table of that name.
        RuntimeError: tpchgen-cli failed.
    """
    _check(tables)
    folder = _cache(scale)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".making-", dir=folder))
    except OSError:
        with tempfile.TemporaryDirectory(prefix="penstock-tpch-") as temporary:
            yield _generate(tables, scale, Path(temporary))
        return
    files = {table: folder / f"{table}.csv" for table in tables}
    try:
        missing = [table for table, path in files.items() if not path.exists()]
        # Another process may be at the same: the last one to rename wins with the same bytes.
        for table, path in _generate(missing, scale, work).items():
            path.rename(files[table])
    finally:
        shutil.rmtree(work)
    yield files


@contextmanager
def parquet_files(table: str, scale: float, parts: int) -> Iterator[list[Path]]:
    """The data of a table as Parquet files, of about equal size and in order; kept as `csv_files`
    are.

    Raises:
        ValueError: TPC-H has no table of that name.
        RuntimeError: tpchgen-cli failed.
    """
    _check([table])
    made = _cache(scale) / f"{table}-{parts}.parquet"
    with ExitStack() as temporary:
        try:
            made.parent.mkdir(parents=True, exist_ok=True)
            work = temporary.enter_context(
                tempfile.TemporaryDirectory(prefix=".making-", dir=made.parent)
            )
        except OSError:
            work = temporary.enter_context(tempfile.TemporaryDirectory(prefix="penstock-tpch-"))
            made = Path(work) / "made"
        if not made.exists():
            _run("parquet", [table], scale, Path(work), "--parts", str(parts))
            found = next(path for path in Path(work).rglob("*.parquet")).parent
            with suppress(OSError):  # another process was first, with the same bytes
                found.rename(made)
        yield sorted(made.glob("*.parquet"), key=_part)


def _part(path: Path) -> int:
    """The number in ``lineitem.12.parquet``."""
    return int(path.name.split(".")[1])


def _cache(scale: float) -> Path:
    cache = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock/tpch")
    return cache / f"tpchgen-{version('tpchgen-cli')}" / f"scale-{scale:g}"


def _generate(tables: Sequence[str], scale: float, folder: Path) -> dict[str, Path]:
    if not tables:
        return {}
    _run("csv", tables, scale, folder)
    files = {table: folder / f"{table}.csv" for table in tables}
    if not all(path.exists() for path in files.values()):
        raise RuntimeError(f"tpchgen-cli made {sorted(os.listdir(folder))}")
    return files


def _run(form: str, tables: Sequence[str], scale: float, folder: Path, *options: str) -> None:
    beside = Path(sys.executable).parent / "tpchgen-cli"
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise RuntimeError("tpchgen-cli is not installed: run make venv")
    # One call for all: most of the time a small scale takes goes into the start.
    chosen = f"--tables={','.join(tables)}"
    made = subprocess.run(
        [program, form, "-q", "-s", f"{scale:g}", chosen, *options, "-o", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"tpchgen-cli ended with {made.returncode}: {made.stderr.strip()}")


def _check(tables: Sequence[str]) -> None:
    for table in tables:
        if table not in COLUMNS:
            raise ValueError(f"TPC-H has no table {table!r}; it has {', '.join(TABLES)}")


def _name(schema: str, table: str) -> sql.Identifier:
    return sql.Identifier(schema, table)


def _add_primary_key(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, table: str
) -> None:
    connection.execute(
        sql.SQL(f"ALTER TABLE {{}} ADD PRIMARY KEY ({PRIMARY_KEYS[table]})").format(
            _name(schema, table)
        )
    )
