"""Messages about a condition: without Penstock's own text, and with the position of the error."""

from __future__ import annotations

import pytest

from penstock.errors import PlanningError
from penstock.planning.statement_errors import wrap_condition_errors

SAID = [
    ("id >> ' foo", 'near "\' foo\n END FROM t"', 'near "\' foo", character 7 of the condition'),
    ("id > 5) OR (true", 'at or near ")"', 'near ")", character 7 of the condition'),
    ("id >", 'at or near "END"', "at the end of the condition"),
    ("a = = 3", 'at or near "="', 'at or near "="'),
    (
        "id >> 'x",
        "near ''x) LIMIT 0' at line 1",
        "near ''x', character 7 of the condition",
    ),
    ("nmae = 1", 'column "nmae" does not exist', 'column "nmae" does not exist'),
]


@pytest.mark.parametrize(("where", "message", "shown"), SAID)
def test_an_error_in_a_condition_is_located(where: str, message: str, shown: str) -> None:
    with pytest.raises(PlanningError) as caught, wrap_condition_errors(where):
        raise PlanningError(f"source: --where on t: error {message}")
    assert caught.value.message == f"source: --where on t: error {shown}"


def test_other_errors_are_unchanged() -> None:
    with pytest.raises(PlanningError) as caught, wrap_condition_errors("x"):
        raise PlanningError('source: table t: near "x END"')
    assert caught.value.message == 'source: table t: near "x END"'
