"""Messages with the values of rows hidden."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from penstock.engine.value_display import isolate_display, isolate_generator_display
from penstock.errors import PermanentError
from penstock.model import values
from penstock.model.extents import Bound, Key, KeyRange, KeyValues

# Messages of servers and libraries about a value, and the same with the value hidden.
SAID = {
    'invalid input syntax for type integer: "SECRET"': "invalid input syntax for type integer: ***",
    'value "99999" is out of range for type int2': "value *** is out of range for type int2",
    "value too long for type character varying(5)": "value too long for type character varying(5)",
    "Duplicate entry 'O'SECRET' for key 't.PRIMARY'": "Duplicate entry *** for key 't.PRIMARY'",
    "Duplicate entry 'a' for key 'SECRET x' for key 'PRIMARY'": (
        "Duplicate entry *** for key 'PRIMARY'"
    ),
    "Duplicate entry 'a SECRET that the server has cut off": "Duplicate entry ***",
    "Incorrect integer value: 'SECRET' for column `d`.`t`.`a` at row 7": (
        "Incorrect integer value: *** for column `d`.`t`.`a` at row 7"
    ),
    "Data truncated for column 'a' at row 5": "Data truncated for column 'a' at row 5",
    "Violation of PRIMARY KEY constraint 'pk'. Cannot insert duplicate key in object 'dbo.t'. The "
    "duplicate key value is (SECRET)": (
        "Violation of PRIMARY KEY constraint 'pk'. Cannot insert duplicate key in object 'dbo.t'. "
        "The duplicate key value is ***"
    ),
    "Conversion failed when converting the varchar value 'SECRET' to data type int": (
        "Conversion failed when converting the varchar value *** to data type int"
    ),
    "Numeric value 'SECRET' is not recognized": "Numeric value *** is not recognized",
    'Constraint Error: Duplicate key "id: SECRET" violates primary key constraint.': (
        "Constraint Error: Duplicate key ***"
    ),
    "Conversion Error: Could not convert string 'SECRET' to INT32": (
        "Conversion Error: Could not convert string *** to INT32"
    ),
    "Failed to parse string: 'SECRET' as a scalar of type int32": (
        "Failed to parse string: *** as a scalar of type int32"
    ),
    "Integer value 300 not in range: -128 to 127": "Integer value *** not in range: *** to ***",
}


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(values.VARIABLE, raising=False)
    values.choose_for_process(None)


@pytest.mark.parametrize(("text", "expected"), SAID.items(), ids=range(len(SAID)))
def test_values_in_a_servers_message_are_hidden(
    text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert values.server_message(text) == expected
    assert "SECRET" not in expected
    monkeypatch.setenv(values.VARIABLE, values.ERRORS)
    assert values.server_message(text) == text


def test_bounds_that_are_texts_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key("k")
    numbers = KeyRange(key, Bound("int4", "1"), Bound("int4", "9"))
    texts = KeyRange(key, Bound("text", "SECRET"), None)
    listed = KeyValues(key, (Bound("varchar", "SECRET"), Bound("date", "2026-01-01")))
    shown = [str(extent) for extent in (numbers, texts, listed)]
    assert shown == ["k [1, 9)", "k >= ***", "k = ***, 2026-01-01"]
    monkeypatch.setenv(values.VARIABLE, values.ERRORS)
    assert str(texts) == "k >= SECRET"


def test_an_explicit_choice_takes_precedence_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @isolate_display
    def one(choice: str | None) -> bool:
        values.choose(choice)
        return values.are_shown()

    assert [one(choice) for choice in (values.ERRORS, None, values.NEVER)] == [True, False, False]
    monkeypatch.setenv(values.VARIABLE, values.ERRORS)
    assert [one(choice) for choice in (values.ERRORS, None, values.NEVER)] == [True, True, False]


def test_interleaved_executions_keep_their_own_choices() -> None:
    @isolate_generator_display
    def many(choice: str) -> Generator[bool, None, None]:
        values.choose(choice)
        for _ in range(2):
            yield values.are_shown()

    pairs = list(zip(many(values.ERRORS), many(values.NEVER), strict=True))
    assert pairs == [(True, False)] * 2
    assert not values.are_shown()


def test_closing_an_execution_runs_its_cleanup() -> None:
    ended: list[str] = []

    @isolate_generator_display
    def long() -> Generator[int, None, None]:
        try:
            yield from range(9)
        finally:
            ended.append("here")

    events = long()
    assert next(events) == 0
    events.close()
    assert ended == ["here"]


@pytest.mark.parametrize("choice", values.SHOW_VALUES)
def test_causes_do_not_reveal_values(choice: str) -> None:
    @isolate_display
    def failing() -> None:
        values.choose(choice)
        try:
            raise KeyError("SECRET")
        except KeyError as error:
            raise PermanentError("target: no") from error

    with pytest.raises(PermanentError) as caught:
        failing()
    assert (caught.value.__cause__ is None) is (choice == values.NEVER)
