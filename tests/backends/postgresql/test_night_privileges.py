"""Privileges that are missing in the target are found when a night is planned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.one_copy import OneCopy

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

NIGHT = {"mode": "upsert", "incremental": "xmin", "deletes": "hard", "table": "public.items"}


def test_a_stage_and_deletes_require_grants(pair: Pair) -> None:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY)", "INSERT INTO items SELECT generate_series(1, 9)"
    )
    pair.target.run(
        "CREATE TABLE items (id int PRIMARY KEY)",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "CREATE ROLE night_loader LOGIN",
        "GRANT SELECT, INSERT, UPDATE ON items TO night_loader",
        "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO night_loader',"
        " current_database()); END $$",
    )
    try:
        url = re.sub(r"//[^/]*@", "//night_loader@", pair.target.url)
        for refused, grant in (
            ("may not CREATE in schema 'public'", "CREATE ON SCHEMA public"),
            ("may not DELETE on public.items", "DELETE ON public.items"),
        ):
            night = OneCopy(source=pair.source.url, target=url, **NIGHT)
            assert night.code == 65
            assert refused in night.message
            pair.target.run(f"GRANT {grant} TO night_loader")
        OneCopy(source=pair.source.url, target=url, **NIGHT).done()
        pair.source.run("DELETE FROM items WHERE id = 3")
        OneCopy(source=pair.source.url, target=url, **NIGHT).done()
        assert len(pair.target.rows("SELECT id FROM items")) == 8
    finally:
        pair.target.run("DROP OWNED BY night_loader", "DROP ROLE night_loader")
