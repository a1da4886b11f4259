"""MySQL or MariaDB to PostgreSQL: six tables like the Employees sample, compared with pgloader.

They are copied with all keys and indexes.
"""

from __future__ import annotations

from contextlib import closing

import psycopg

from benchmarks.bench import Bench, WrongResult
from benchmarks.mysql import SETTINGS
from benchmarks.mysql_tables import MysqlTables, in_turns
from penstock_testkit import MysqlServer, connect_mysql

DATABASE = "employees"
PEOPLE = 200_000
# By table: a query for its rows over the numbers i, from 1.
ROWS = {
    "departments": (9, "SELECT concat('d', lpad(i, 3, '0')), concat('Department ', i)"),
    "employees": (
        PEOPLE,
        "SELECT i, date '1950-01-01' + INTERVAL i % 9000 DAY, left(md5(i), 10),"
        " left(md5(i * 7), 14), IF(i % 5 < 3, 'M', 'F'), date '1985-01-01' + INTERVAL i % 5000 DAY",
    ),
    "dept_manager": (24, "SELECT i, concat('d00', 1 + i % 9), '1990-01-01', '9999-01-01'"),
    "dept_emp": (
        PEOPLE * 11 // 10,
        f"SELECT 1 + (i - 1) % {PEOPLE}, concat('d00', 1 + (i + i DIV {PEOPLE}) % 9),"
        " date '1990-01-01' + INTERVAL i % 3000 DAY, '9999-01-01'",
    ),
    "titles": (
        PEOPLE * 3 // 2,
        f"SELECT 1 + (i - 1) % {PEOPLE}, IF(i % 3, 'Senior Engineer', 'Staff'),"
        f" date '1990-01-01' + INTERVAL i DIV {PEOPLE} * 900 + i % 800 DAY,"
        " IF(i % 4, '9999-01-01', NULL)",
    ),
    "salaries": (
        PEOPLE * 9,
        "SELECT 1 + (i - 1) DIV 9, 40000 + i * 7919 % 90000,"
        " date '1990-01-01' + INTERVAL (i - 1) % 9 * 365 DAY,"
        " date '1990-12-31' + INTERVAL (i - 1) % 9 * 365 DAY",
    ),
}
TABLES = """
    CREATE TABLE departments (
        dept_no char(4) PRIMARY KEY, dept_name varchar(40) NOT NULL, UNIQUE KEY (dept_name)
    );
    CREATE TABLE employees (
        emp_no int PRIMARY KEY, birth_date date NOT NULL, first_name varchar(14) NOT NULL,
        last_name varchar(16) NOT NULL, gender enum('M', 'F') NOT NULL, hire_date date NOT NULL,
        KEY name (last_name, first_name)
    );
    CREATE TABLE dept_manager (
        emp_no int NOT NULL, dept_no char(4) NOT NULL, from_date date NOT NULL,
        to_date date NOT NULL, PRIMARY KEY (emp_no, dept_no),
        FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
        FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE
    );
    CREATE TABLE dept_emp (
        emp_no int NOT NULL, dept_no char(4) NOT NULL, from_date date NOT NULL,
        to_date date NOT NULL, PRIMARY KEY (emp_no, dept_no),
        FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
        FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE
    );
    CREATE TABLE titles (
        emp_no int NOT NULL, title varchar(50) NOT NULL, from_date date NOT NULL, to_date date,
        PRIMARY KEY (emp_no, title, from_date),
        FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE
    );
    CREATE TABLE salaries (
        emp_no int NOT NULL, salary int NOT NULL, from_date date NOT NULL, to_date date NOT NULL,
        PRIMARY KEY (emp_no, from_date),
        FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE
    )
"""
FOREIGN_KEYS = 6
# All primary keys, the unique key, the names, and the indexes that MySQL creates for foreign keys.
INDEXES = 10


def all_indexes(bench: Bench, repeat: int) -> MysqlTables:
    """Copy the tables with their indexes and foreign keys, creating them each time."""
    with MysqlServer(settings=SETTINGS) as mysql:
        _make(mysql)
        costs = in_turns(bench, mysql, DATABASE, repeat, _check)
    total = sum(count for count, _ in ROWS.values())
    return MysqlTables(costs, f"Employees, {total:,} rows", "Employees", 0.5)


def _make(mysql: MysqlServer) -> None:
    with closing(connect_mysql(mysql.url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(f"USE {DATABASE}")
        for statement in TABLES.split(";"):
            cursor.execute(statement)
        numbers = (
            "WITH RECURSIVE n (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n WHERE k < 1449),"
            " numbers (i) AS (SELECT 1 + a.k * 1450 + b.k FROM n AS a CROSS JOIN n AS b)"
        )
        cursor.execute("SET max_recursive_iterations = 2000")
        for table, (count, selected) in ROWS.items():
            cursor.execute(
                f"INSERT INTO {table} {numbers} {selected} FROM numbers WHERE i <= {count}"
            )
            cursor.execute(f"ANALYZE TABLE {table}")


def _check(bench: Bench) -> None:
    """Check the target.

    Raises:
        WrongResult: rows, indexes or foreign keys are missing.
    """
    counts = ", ".join(f"(SELECT count(*) FROM {DATABASE}.{table})" for table in ROWS)
    query = (
        f"SELECT (SELECT count(*) FROM pg_indexes WHERE schemaname = '{DATABASE}'), "
        "(SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"
        f" AND connamespace = '{DATABASE}'::regnamespace), {counts}"
    )
    with psycopg.connect(bench.target_url) as target:
        found = target.execute(query.encode()).fetchone()
    expected = (INDEXES, FOREIGN_KEYS, *(count for count, _ in ROWS.values()))
    if found != expected:
        raise WrongResult(f"expected indexes, foreign keys, rows {expected}; found {found}")
