"""Snowflake as source and target."""

from __future__ import annotations

import warnings

from penstock.backends.api.installation import check_installed
from penstock.backends.snowflake.capabilities import SOURCE, TARGET
from penstock.backends.snowflake.location import URLS
from penstock.backends.sql.backend import ModularBackend

# On Python 3.14, the connector warns of any pyarrow that is newer than its extra for pandas allows.
warnings.filterwarnings(
    "ignore",
    "You have an incompatible version of 'pyarrow'",
    UserWarning,
    r"snowflake\.connector\.",
)
check_installed("snowflake.connector", "pyarrow")

backend = ModularBackend(
    __name__,
    URLS,
    SOURCE,
    TARGET,
    kinds=("snowflake",),
    rewrites="DROP TABLE or CREATE OR REPLACE TABLE",
    snapshot_burden="relied on the source's time travel",
)
"""The object that the entry point refers to."""
