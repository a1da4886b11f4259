"""The kind of a statement, without its names and values."""

from __future__ import annotations

import pytest

from penstock.model.values import statement_kind


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("ALTER TABLE secret ADD x text DEFAULT 'v'", "ALTER TABLE"),
        ("  -- hello 'v'\n /* x\n */ drop\n\ttable secret", "DROP TABLE"),
        ("alter/**/table secret", "ALTER TABLE"),
        ("truncate secret", "TRUNCATE"),
        ("VACUUM FULL secret", "VACUUM FULL"),
        ("vacuum (full) secret", "VACUUM"),
        ("SELECT 'v'", "SELECT"),
        ("", "a statement that this user may not see"),
        ("<insufficient privilege>", "a statement that this user may not see"),
        ("(SELECT 'v')", "a statement that this user may not see"),
    ],
)
def test_a_statement_is_reduced_to_its_kind(query: str, kind: str) -> None:
    assert statement_kind(query, "VACUUM FULL") == kind
