"""A malformed URL is rejected without showing the secret in it.

The message of a driver or library may quote any part of the URL, so none of it is shown.
"""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock import CopySpec
from penstock.cli.main import main
from penstock.engine.connections import connect, holds_secret, place_of, resolve, with_parameters
from penstock.errors import PenstockError, UsageError

# Contained in no other part of the URLs below, so if it is found, the secret was shown.
MARK = "Zz9"
pieces = st.text(st.sampled_from("ab1@:/?#[]&=%;+ ,\\\"'<>~é℀\0\n"), max_size=6)
secrets = st.builds(lambda head, tail: head + MARK + tail, pieces, pieces)
broken = st.sampled_from(["%zz", "%", "[", "]", "[::", "&x", "\0", "℀", "@", "@@", "/@", " ", "#"])
schemes = st.sampled_from(["postgresql", "postgres", "duckdb", "file", "s3", "S3"])
names = st.sampled_from(
    ["password", "sslpassword", "passwd", "secret_access_key", "session_token", "motherduck_token"]
)


def in_login(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://me:{secret}{wrong}@db.example.org/shop"


def in_brackets(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://[{secret}{wrong}/shop"


def without_a_host(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://me:{wrong}{secret}"


def with_a_path_in_it(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://me:{wrong}/{secret}@db.example.org/shop"


def in_parameter(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://bucket/shop?user=me&password={wrong}{secret}"


def in_two_parameters(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://bucket/shop?secret_access_key={wrong}&{secret}&password=x&password={secret}"


def in_endpoint(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}://bucket/shop?endpoint=http://me:{secret}{wrong}@s3.example.org"


def without_a_scheme(scheme: str, secret: str, wrong: str) -> str:
    return f"{scheme}:/me:{secret}{wrong}@db.example.org/shop"


FORMS = (
    in_login,
    in_brackets,
    without_a_host,
    with_a_path_in_it,
    in_parameter,
    in_two_parameters,
    in_endpoint,
    without_a_scheme,
)
urls = st.builds(
    lambda form, scheme, secret, wrong: form(scheme, secret, wrong),
    st.sampled_from(FORMS),
    schemes,
    secrets,
    broken,
)
CALLS: dict[str, Callable[[str], Any]] = {
    "resolve": lambda url: resolve(url, "--source")[2],
    "connect": lambda url: repr(connect(url, url)),
    "holds_secret": holds_secret,
    "with_parameters": lambda url: with_parameters(url, {"region": "x"}) and None,
    "spec": lambda url: repr(CopySpec(source=url, target=url, table="public.t")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@given(url=urls)
@example(url=f"postgresql://host/db?user=u&password=ab%zz{MARK}")
@example(url=f"postgresql://[{MARK}/db")
@example(url=f"postgresql://me:[{MARK}@host/db")
@example(url=f"duckdb://[{MARK}]/db")
@example(url=f"duckdb://a℀{MARK}/db")
@example(url=f"s3://bucket/x?secret_access_key=a&{MARK}")
@example(url=f"s3://key:a/{MARK}@bucket/x")
@example(url=f"s3://bucket/x?endpoint=http://[{MARK}]")
@example(url=f"s3://bucket/x?path_style={MARK}")
def test_errors_and_reprs_show_no_secret(call: Callable[[str], Any], url: str) -> None:
    try:
        shown = repr(call(url))
    except UsageError as error:
        shown = "".join(traceback.format_exception(error)) + repr(error) + str(error.as_json())
    assert MARK not in shown, shown


def test_a_parameter_unknown_to_libpq_is_named() -> None:
    with pytest.raises(UsageError, match="'wharehouse', which libpq does not accept"):
        resolve("postgresql://me@host/db?sslmode=require&wharehouse=x&password=y", "--source")


@given(url=urls)
@example(url=f"postgresql://host/db?user=u&password=ab%zz{MARK}")
@example(url=f"duckdb://[{MARK}]/db")
def test_places_show_no_secret(url: str) -> None:
    """A valid path is no secret."""
    try:
        shown = place_of(url).host
    except PenstockError as error:
        shown = "".join(traceback.format_exception(error))
    assert MARK not in shown


def refuse(source: str, _: str) -> None:
    """Check only the source: nothing may be connected to."""
    resolve(source, "--source")
    raise UsageError("--target: not in this test")


@given(url=urls)
@example(url=f"postgresql://host/db?user=u&password=ab%zz{MARK}")
@example(url=f"postgresql://[{MARK}/db")
@example(url=f"duckdb://[{MARK}]/db")
def test_the_command_line_shows_no_secret(url: str) -> None:
    heard = io.StringIO()
    with (
        contextlib.redirect_stderr(heard),
        contextlib.redirect_stdout(heard),
        patch("penstock.engine.api.connect", refuse),
    ):
        code = main(["plan", "--source", url, "--target", "env:NOWHERE", "--table", "public.t"])
    assert code == 64, heard.getvalue()
    assert MARK not in heard.getvalue()
