"""The driver's errors, classified as transient or permanent."""

from __future__ import annotations

import pytest
from mssql_python.exceptions import (
    DatabaseError,
    DataError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    sqlstate_to_exception,
)
from mssql_python.exceptions import Exception as DriverError

from penstock.backends.mssql.drivers.native import driver_error
from penstock.backends.mssql.errors import from_driver, planning, translated
from penstock.errors import PermanentError, PlanningError, TransientError

SERVER = "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]"
OURS = "[Microsoft][ODBC Driver 18 for SQL Server]"


@pytest.mark.parametrize(
    ("state", "words", "expected"),
    [
        ("08001", f"{OURS}TCP Provider: Error code 0x2749", TransientError),
        ("08S01", f"{OURS}Communication link failure", TransientError),
        ("40001", f"{SERVER}Transaction (Process ID 5) was deadlocked on lock", TransientError),
        ("HYT00", f"{OURS}Login timeout expired", TransientError),
        ("HY008", f"{OURS}Operation canceled", TransientError),
        ("08003", f"{OURS}Connection not open", TransientError),
        ("42000", f"{SERVER}Lock request time out period exceeded.", TransientError),
        ("08001", f"{OURS}SSL Provider: [error:0A000086:certificate verify fail]", PermanentError),
        ("08001", f"{OURS}SSL Provider: timeout", TransientError),
        ("08001", f"{OURS}Encryption not supported on the client.", PermanentError),
        ("42000", f'{SERVER}Cannot open database "x". The login failed.', PermanentError),
        ("28000", f"{SERVER}Login failed for user 'me'.", PermanentError),
        ("42000", f"{SERVER}Incorrect syntax near ')'.", PermanentError),
        ("42S02", f"{SERVER}Invalid object name 't'.", PermanentError),
        ("22003", f"{SERVER}Arithmetic overflow error", PermanentError),
        ("23000", f"{SERVER}Violation of PRIMARY KEY constraint", PermanentError),
        ("ZZZZZ", f"{SERVER}Something new", PermanentError),
    ],
)
def test_classes_of_errors(state: str, words: str, expected: type[Exception]) -> None:
    error = sqlstate_to_exception(state, words) or DatabaseError(f"SQLSTATE {state}", words)
    found = from_driver(driver_error(error), "source", "table t")
    assert type(found) is expected
    assert found.message.startswith("source: table t: ")
    assert found.diagnosis.side == "source"
    assert "[Microsoft]" not in found.message
    assert "ODBC" not in found.message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OperationalError("Timeout expired", f"{SERVER}Not now."),
            "source: h:1433: Not now",
        ),
        (
            InterfaceError("Invalid authorization specification", f"{SERVER}Login failed for 'me'"),
            "source: h:1433: Login failed for 'me'; check the user, password and database",
        ),
        (
            OperationalError(
                "Client unable to establish connection", f"{OURS}certificate verify failed"
            ),
            "source: h:1433: certificate verify failed; add ?server_certificate=FILE with the "
            "server's certificate to the URL, or ?trust_server_certificate=yes to skip the "
            "verification",
        ),
        (DataError("Numeric value out of range", ""), "source: h:1433: Numeric value out of range"),
    ],
)
def test_messages_of_errors(error: DriverError, message: str) -> None:
    assert from_driver(driver_error(error), "source", "h:1433").message == message


def test_an_error_during_planning_is_classified() -> None:
    refused = driver_error(ProgrammingError("Syntax error or access violation", f"{SERVER}No."))
    with pytest.raises(PlanningError, match=r"^source: t: No$"), planning("source", "t"):
        raise refused
    lost = driver_error(OperationalError("Communication link failure", f"{OURS}Gone"))
    with pytest.raises(TransientError, match=r"^source: x: Gone$"), planning("source", "x"):
        raise lost
    with pytest.raises(PermanentError, match=r"^target: No$") as raised, translated("target"):
        raise refused
    assert type(raised.value) is PermanentError
    assert raised.value.__cause__ is refused
