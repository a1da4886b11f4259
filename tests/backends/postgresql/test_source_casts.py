"""A value that the source cannot cast to the target's type is named by its column and row."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError

from ..conftest import Pair


@pytest.mark.usefixtures("both_paths")
def test_json_that_is_no_jsonb(pair: Pair) -> None:
    pair.needs(16, "pg_input_is_valid")
    pair.source.run(
        "CREATE TABLE public.t (id int, d json)",
        "INSERT INTO public.t SELECT g, CASE g WHEN 7 THEN E'{\"a\": \"\\\\u0000\"}' ELSE '{}' END"
        "::json FROM generate_series(1, 10) g",
    )
    pair.target.run("CREATE TABLE public.t (id int, d jsonb)")
    with pytest.raises(PenstockError) as caught:
        pair.copy(attempts=1)
    notes = " ".join(caught.value.__notes__)
    assert "column 'd', row 7" in notes
    assert "jsonb" in notes
    assert "Unicode" in notes
