"""A query's text without trailing semicolons and comments."""

from __future__ import annotations

import pytest

from penstock.backends.postgresql.session.query_text import without_end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT 1;", "SELECT 1"),
        ("SELECT 1 ; ;\n", "SELECT 1"),
        ("SELECT 1; -- a; b", "SELECT 1"),
        ("SELECT 1 /* a /* ; */ b */ ; /* open", "SELECT 1"),
        ("SELECT ';'", "SELECT ';'"),
        ("SELECT 'it''s;' ;", "SELECT 'it''s;'"),
        (r"SELECT E'\';' ;", r"SELECT E'\';'"),
        ("SELECT 'a -- ;'", "SELECT 'a -- ;'"),
        ('SELECT 1 AS ";" ;', 'SELECT 1 AS ";"'),
        ("SELECT $$;$$;", "SELECT $$;$$"),
        ("SELECT $x$ $$ ; $x$;", "SELECT $x$ $$ ; $x$"),
        ("SELECT a$b$ FROM c$b$;", "SELECT a$b$ FROM c$b$"),
        ("SELECT $1;", "SELECT $1"),
        ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
        ("-- nothing", ""),
        ("SELECT 'open", "SELECT 'open"),
    ],
)
def test_the_end_is_removed(text: str, expected: str) -> None:
    assert without_end(text) == expected
