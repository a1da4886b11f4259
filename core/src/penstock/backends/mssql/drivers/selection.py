"""Which driver a URL names, and what is missing if it cannot be loaded."""

from __future__ import annotations

from penstock.backends.api.installation import install_command
from penstock.backends.mssql.drivers.driver import Driver
from penstock.backends.mssql.drivers.odbc_location import ODBC_URLS
from penstock.backends.mssql.drivers.urls import urls_of
from penstock.errors import Diagnosis, UsageError

LIBRARIES = {
    "mssql": "apt-get install libltdl7 libgssapi-krb5-2, or dnf install libtool-ltdl krb5-libs",
    "mssql+pyodbc": "apt-get install unixodbc, or dnf install unixODBC",
}
"""How to install what each scheme's driver loads and its wheel does not include."""


def open_driver(url: str, side: str) -> Driver:
    """Open a URL's driver.

    Raises:
        DriverError: the connection failed.
        UsageError: the driver, or a system library that it needs, is not installed.
    """
    scheme = urls_of(url).scheme
    try:
        if urls_of(url) is ODBC_URLS:
            from penstock.backends.mssql.drivers.odbc import OdbcDriver  # noqa: PLC0415

            return OdbcDriver(url)
        from penstock.backends.mssql.drivers.native import NativeDriver  # noqa: PLC0415

        return NativeDriver(url)
    except ModuleNotFoundError as error:
        extra = "mssql-odbc" if urls_of(url) is ODBC_URLS else "mssql"
        raise UsageError(
            f"{side}: {scheme} needs the Python module {error.name!r}; install it with: "
            f"{install_command(extra)}",
            Diagnosis(side=side),
        ) from error
    except ImportError as error:  # a system library, which no wheel includes
        raise UsageError(
            f"{side}: {scheme} needs a system library that is not installed ({error}); install it "
            f"with: {LIBRARIES[scheme]}",
            Diagnosis(side=side),
        ) from error
