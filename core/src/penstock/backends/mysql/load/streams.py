"""The stream of an attempt into a table, by the fastest way that the server has."""

from __future__ import annotations

from collections.abc import Sequence

import pymysql

from penstock.backends.api.attempt import LoadStream
from penstock.backends.api.worker import Wait
from penstock.backends.mysql.load.columns import target_columns
from penstock.backends.mysql.load.infile import InfileStream
from penstock.backends.mysql.load.inserts import InsertStream
from penstock.model.tables import Column

# Zero is a value of an AUTO_INCREMENT column. A slow source is no reason to end the session; how
# long nothing may happen is for `wait` to say.
_SETTINGS = """
    SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'),
        time_zone = '+00:00', sql_notes = 1, max_error_count = 64, net_read_timeout = 31536000
"""


def load_stream(
    connection: pymysql.Connection,
    table: str,
    columns: Sequence[Column],
    local_infile: bool,
    wait: Wait,
) -> LoadStream:
    """Begin to load into a table, within the transaction that is open.

    Parameters:
        connection: with `client_flag=CLIENT.LOCAL_FILES`, if at all: never with the driver's own
            `local_infile`, which sends the server any file that it asks for.
        table: quoted.
        columns: of the batches, in their order, with the trait `sql.relations.TYPE`.
        local_infile: whether the server takes LOAD DATA LOCAL.

    Raises:
        PermanentError: the server would not take values of a column as they are.
    """
    assert not connection._local_infile
    with wait.answering("target"), connection.cursor() as cursor:
        cursor.execute(_SETTINGS)
        cursor.execute("SELECT @@max_allowed_packet")
        (most,) = cursor.fetchone()
        targets = target_columns(connection, table, columns)
    if local_infile:
        return InfileStream(connection, table, targets, most, wait)
    return InsertStream(connection, table, targets, most)
