"""Checks of a server's certificate. No connection is made."""

from __future__ import annotations

import ssl

import pytest

from penstock.backends.mysql.connection import Connection
from penstock.backends.mysql.location import URLS, tls_options


@pytest.mark.parametrize(
    ("mode", "required", "checks_certificate", "checks_name"),
    [
        ("", False, False, False),
        ("preferred", False, False, False),
        ("required", True, False, False),
        ("verify_ca", True, True, False),
        # Also without a custom CA: the system's are used.
        ("verify_identity", True, True, True),
    ],
)
def test_each_mode_checks_what_it_should(
    mode: str, required: bool, checks_certificate: bool, checks_name: bool
) -> None:
    query = f"?ssl_mode={mode}" if mode else ""
    options = tls_options(URLS.parse(f"mysql://me@db/shop{query}"))
    session = Connection(defer_connect=True, **options)
    assert session._ssl_required is required
    assert (session.ctx.verify_mode is ssl.CERT_REQUIRED) is checks_certificate
    assert session.ctx.check_hostname is checks_name


def test_tls_can_be_disabled() -> None:
    session = Connection(
        defer_connect=True, **tls_options(URLS.parse("mysql://me@db?ssl_mode=disabled"))
    )
    assert not session.ssl
