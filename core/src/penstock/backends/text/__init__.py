"""CSV and JSON lines as source and target, local and on S3."""

from __future__ import annotations

from penstock.backends.api.installation import check_installed
from penstock.backends.text.backend import TextBackend

check_installed("boto3", "duckdb", "msgspec", "pyarrow")

local = TextBackend("csv", remote=False)
s3 = TextBackend("csv", remote=True)
local_json = TextBackend("json", remote=False)
s3_json = TextBackend("json", remote=True)
"""The backend objects that the entry points refer to."""
