"""Options in messages: in terms of the command line, or as arguments in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import CopySpec, UsageError
from penstock.cli.main import main
from penstock.engine.value_display import isolate_display
from penstock.spec import terms

ENDS: dict[str, Any] = {"source": "env:A", "target": "env:B", "table": "public.orders"}


@pytest.fixture(autouse=True)
def in_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the terms of Python; elsewhere, the suite uses those of the command line."""
    monkeypatch.setattr(terms, "_flags", [])
    yield
    assert terms._flags == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": 0}, "public.orders: partitions: expected at least 1, found 0"),
        (
            {"strategy": "ctid", "key": "id"},
            'public.orders: strategy="ctid" uses no key: omit key, or use a strategy',
        ),
        (
            {"mode": "upsert", "indexes": "defer"},
            'indexes="defer": mode="upsert" needs a unique index to find rows',
        ),
    ],
)
def test_a_spec_in_python_uses_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        CopySpec(**ENDS, **options)
    assert message in caught.value.message
    assert str(caught.value) == caught.value.message
    assert "--" not in caught.value.message


def test_a_call_in_python_uses_arguments() -> None:
    @isolate_display
    def called() -> None:
        raise UsageError("--mode replace: expected --key; see `penstock copy --key`")

    with pytest.raises(UsageError) as caught:
        called()
    assert caught.value.message == 'mode="replace": expected key; see `penstock copy --key`'


def test_the_command_line_uses_options(capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--{name}={value}" for name, value in ENDS.items()]
    assert main(["copy", *options, "--strategy", "ctid", "--key", "id"]) == 64
    assert "--strategy ctid uses no key: omit --key" in capsys.readouterr().err
