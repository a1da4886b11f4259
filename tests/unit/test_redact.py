"""`redact` never shows a password, in whatever form it appears in a URL."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.spec.references import redact

# Contained in no other part of the URLs below, so if it is found, the secret was shown.
MARK = "Zz9"
SPECIAL = "@:/?#[]&=%;+ !$'()*,\\\"<>{}|^`~é🐘\t\n\r\0"
passwords = st.text(st.sampled_from(SPECIAL + "ab1"), max_size=8)
NAMES = ["password", "PASSWORD", "sslpassword", "passwd", "token", "oauth_client_secret", "api_key"]


def assert_hidden(url: str) -> None:
    assert MARK not in redact(url), redact(url)


@given(passwords, passwords)
def test_a_percent_encoded_password_is_hidden_and_the_rest_is_shown(head: str, tail: str) -> None:
    secret = quote(head + MARK + tail, safe="")
    url = f"scheme://me:{secret}@db.example.org:5432/shop?sslmode=require"
    assert redact(url) == "scheme://me@db.example.org:5432/shop?sslmode=require"


@given(passwords, passwords)
@example("", "?a=b")
@example("", "/x")
@example("a?b=c", "")
@example("", "#")
@example("[", "")
@example("", "@x?y=z")
def test_a_raw_password_is_hidden(head: str, tail: str) -> None:
    assert_hidden(f"scheme://me:{head}{MARK}{tail}@db.example.org/shop?sslmode=require")


@given(passwords, passwords)
def test_a_raw_password_without_a_user_is_hidden(head: str, tail: str) -> None:
    assert_hidden(f"scheme://:{head}{MARK}{tail}@db.example.org/shop")


@given(st.sampled_from(NAMES), passwords, passwords, st.booleans())
def test_a_secret_parameter_is_hidden(name: str, head: str, tail: str, first: bool) -> None:
    secret = quote(head + MARK + tail, safe="")
    parameters = [f"{name}={secret}", "sslmode=require"]
    url = "scheme://me@db/shop?" + "&".join(parameters if first else reversed(parameters))
    assert_hidden(url)
    assert "sslmode=require" in redact(url)


@given(st.sampled_from(NAMES), passwords, passwords)
def test_a_raw_secret_parameter_is_hidden(name: str, head: str, tail: str) -> None:
    # After an unescaped &, another parameter begins; parsers of the URL agree.
    assume("&" not in head + tail)
    assert_hidden(f"scheme://me@db/shop?{name}={head}{MARK}{tail}")


@given(st.sampled_from(NAMES), passwords)
def test_a_percent_encoded_name_is_recognised(name: str, tail: str) -> None:
    assume("&" not in tail)
    encoded = "".join(f"%{ord(letter):02x}" for letter in name)
    assert_hidden(f"scheme://me@db/shop?{encoded}={MARK}{tail}")


@pytest.mark.parametrize(
    "text",
    [
        f"host=db password={MARK}",
        f"host=db password={MARK} options=a://b",
        f"password='{MARK}' host=a://b@c",
        f"//me:{MARK}@db/shop",
        f"me:{MARK}@db/shop",
        f"env:scheme://me:{MARK}@db/shop",
        MARK,
    ],
)
def test_a_text_that_is_no_url_is_hidden(text: str) -> None:
    assert_hidden(text)


@given(st.text())
def test_accepts_any_text(text: str) -> None:
    assert isinstance(redact(text), str)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("env:SHOP", "env:SHOP"),
        ("scheme://me@db/shop", "scheme://me@db/shop"),
        ("scheme://db:5432,db2:5433/shop", "scheme://db:5432,db2:5433/shop"),
        ("scheme:///shop?host=/run/x&port=1", "scheme:///shop?host=/run/x&port=1"),
        ("scheme://[::1]:5432/shop", "scheme://[::1]:5432/shop"),
        ("scheme://me:x@db/shop?password=x", "scheme://me@db/shop?password=***"),
        ("scheme:///?service=shop", "scheme:///?service=shop"),
    ],
)
def test_shows_everything_else(url: str, shown: str) -> None:
    assert redact(url) == shown
