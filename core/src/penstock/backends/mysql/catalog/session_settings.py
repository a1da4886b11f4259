"""The settings that every session fixes, whatever the server or its init_connect say.

Definitions are parsed from what the server prints, values from what it writes, and a load must be
checked as it was planned. Variables are left alone if only some users may set them, or if the
server's own way is wanted: a default collation, AUTO_INCREMENT's step, the digits of a division in
a generated column.
"""

from __future__ import annotations

from collections.abc import Mapping

MYSQL, MARIADB = "MySQL", "MariaDB"
# Values that do not fit are errors; a zero in an AUTO_INCREMENT column stays zero.
SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
# The other side may be slower than the server's patience with its clients.
_PATIENT = "86400"
_UNLIMITED = "18446744073709551615"

COMMON: Mapping[str, str] = {
    "sql_mode": f"'{SQL_MODE}'",
    "time_zone": "'+00:00'",
    "net_write_timeout": _PATIENT,
    "net_read_timeout": _PATIENT,
    "wait_timeout": _PATIENT,
    # Names without backticks could not be told from other words in SHOW CREATE TABLE.
    "sql_quote_show_create": "1",
    # Some values are found in messages, which are in other languages elsewhere.
    "lc_messages": "'en_US'",
    # Even a note may report lost digits.
    "sql_notes": "1",
    # All rows are read, however many and however the server estimates them.
    "sql_select_limit": _UNLIMITED,
    "sql_big_selects": "1",
    # Otherwise `id IS NULL` selects the row inserted last.
    "sql_auto_is_null": "0",
    # Text keys are compared row by row as they are sorted, up to 300 characters of 4 bytes.
    "max_sort_length": "2048",
    # A commit ends the transaction, and the session begins the next one itself.
    "completion_type": "0",
    # A load is checked by the target's keys. Unique keys may be checked later, or never.
    "foreign_key_checks": "1",
    "unique_checks": "1",
    # Rows are deleted by conditions that have no index.
    "sql_safe_updates": "0",
    # New tables undo a failed load.
    "default_storage_engine": "'InnoDB'",
    "default_tmp_storage_engine": "'InnoDB'",
}
OF_MYSQL: Mapping[str, str] = {
    "max_execution_time": "0",
    # Facts of this moment.
    "information_schema_stats_expiry": "0",
    # SHOW CREATE TABLE would list options that the table does not name.
    "show_create_table_verbosity": "0",
    # A timestamp without NULL would be NOT NULL, and set by the server.
    "explicit_defaults_for_timestamp": "1",
}
# From 8.0.30 on: a primary key that the server generates is no column of the user's.
GENERATED_KEYS: Mapping[str, str] = {"show_gipk_in_create_table_and_information_schema": "0"}
WITH_GENERATED_KEYS = (8, 0, 30)
OF_MARIADB: Mapping[str, str] = {
    "max_statement_time": "0",
    "check_constraint_checks": "1",
    # Casts of times and the name utf8 mean the same everywhere.
    "old_mode": "'UTF8_IS_UTF8MB3'",
    # A session that holds a snapshot or a lock may be idle.
    "idle_transaction_timeout": "0",
    "idle_readonly_transaction_timeout": "0",
    "idle_write_transaction_timeout": "0",
}
# The first version of MariaDB that uses MySQL's names of the variables for transactions.
_RENAMED = (11, 1)


def session_settings(
    system: str, version: tuple[int, ...], isolation: str, lock_seconds: int
) -> dict[str, str]:
    """Return all settings of a session, as expressions, by variable.

    Args:
        system: `MySQL` or `MariaDB`.
        version: the server's.
        isolation: the isolation level.
        lock_seconds: how long to wait for a lock on a table's definition.
    """
    own = OF_MARIADB if system == MARIADB else OF_MYSQL
    if system == MYSQL and version >= WITH_GENERATED_KEYS:
        own = {**own, **GENERATED_KEYS}
    prefix = "tx" if system == MARIADB and version < _RENAMED else "transaction"
    return {
        **COMMON,
        **own,
        f"{prefix}_isolation": f"'{isolation}'",
        f"{prefix}_read_only": "0",
        "lock_wait_timeout": f"{lock_seconds}",
    }
