"""The exception tree, its exit codes, and the serialisation of errors."""

from __future__ import annotations

import re

import pytest

from penstock import errors
from penstock.errors import Diagnosis, PenstockError

CODES = {
    "PenstockError": 70,
    "UsageError": 64,
    "SpecMismatch": 64,
    "PermanentError": 65,
    "PlanningError": 65,
    "MissingTarget": 65,
    "Drifted": 76,
    "SnapshotLost": 65,
    "Unreadable": 65,
    "LoadLost": 65,
    "TargetChanged": 65,
    "RunFailed": 65,
    "TooManyDeletes": 65,
    "TooManyLosses": 65,
    "TransientError": 75,
    "StallError": 75,
    "TooManyConnections": 75,
    "WorkerLost": 75,
    "NoHolder": 75,
    "Taken": 75,
    "Superseded": 75,
    "TargetBusy": 75,
    "Overtaken": 75,
    "TableReplaced": 75,
    "Blocked": 75,
    "RunFailedTransiently": 75,
    "Interrupted": 130,
}


def classes() -> dict[str, type[PenstockError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, PenstockError)
    }


def drawn() -> dict[str, str]:
    """Return each class of the tree in the docstring, with the class above it."""
    above: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([|` ]*(?:\|-- |`-- ))?(\w+)(?:  |$)", line)
        if found is None:
            continue
        depth = len(found[1] or "") // 4
        path[depth:] = [found[2]]
        above[found[2]] = path[depth - 1] if depth else "Exception"
    return above


def test_the_tree_in_the_docstring_matches_the_classes() -> None:
    assert drawn() == {name: kind.__base__.__name__ for name, kind in classes().items()}  # type: ignore[union-attr]


def test_the_docstring_has_the_exit_code_of_each_branch() -> None:
    exit_codes = dict(re.findall(r"(\w+) .*\(exit (\d+)\)", errors.__doc__ or ""))
    assert exit_codes == {
        name: str(CODES[name])
        for name in ("UsageError", "PermanentError", "Drifted", "TransientError", "Interrupted")
    }


def test_each_error_has_its_exit_code() -> None:
    assert {name: kind.exit_code for name, kind in classes().items()} == CODES


def test_only_errors_that_a_retry_may_resolve_are_transient() -> None:
    assert all(kind.transient == (kind.exit_code == 75) for kind in classes().values())


@pytest.mark.parametrize("name", sorted(CODES))
def test_an_error_has_the_servers_message_and_no_more(name: str) -> None:
    kind = classes()[name]
    error = kind("orders: expected a, found b", Diagnosis(side="target", code="23505"))
    assert str(error) == error.message == "orders: expected a, found b"
    assert error.as_json() == {
        "error": name,
        "message": "orders: expected a, found b",
        "transient": kind.transient,
        "side": "target",
        "code": "23505",
    }


def test_an_error_without_a_diagnosis_lacks_its_fields() -> None:
    assert set(PenstockError("x").as_json()) == {"error", "message", "transient"}
