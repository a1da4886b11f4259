"""Numbered columns at the end of their numbers: rows arrive, and what cannot continue is listed."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from penstock import CopySpec, copy
from penstock.events import Finished
from penstock.spec.modes import ModeName

from .mysql_pair import execute

LAST = (1 << 63) - 1


@pytest.mark.parametrize("mode", ["recreate", "truncate"])
@pytest.mark.parametrize(
    ("number", "continues"),
    [((1 << 64) - 1, False), (LAST, False), (LAST - 1, True)],
)
def test_the_last_number_into_postgresql(
    mysql_url: str, target_url: str, number: int, continues: bool, mode: ModeName
) -> None:
    execute(
        mysql_url,
        "CREATE TABLE t (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, v int)",
        f"INSERT INTO t VALUES ({number}, 1)",
    )
    with closing(psycopg.connect(target_url, autocommit=True)) as target:
        target.execute("CREATE TABLE t (id numeric(20) PRIMARY KEY, v int)")
        if mode == "truncate":
            target.execute(
                "CREATE SEQUENCE s OWNED BY t.id; ALTER TABLE t ALTER id SET DEFAULT nextval('s')"
            )
        spec = CopySpec(
            source=mysql_url, target=target_url, table="t", target_table="public.t", mode=mode
        )
        *_, end = copy(spec)
        assert isinstance(end, Finished)
        assert end.status == "done"
        assert (not continues) == ("next numbers" in {item.kind for item in end.not_copied})
        again = "INSERT INTO t (v) VALUES (2) RETURNING id"
        if continues:
            assert target.execute(again).fetchall() == [(number + 1,)]
        else:
            with pytest.raises(psycopg.Error, match="reached maximum value of sequence"):
                target.execute(again)
