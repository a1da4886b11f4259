"""The command line with a target whose steps commit separately, each before its record."""

from __future__ import annotations

import sys

from penstock.backends.postgresql.records import PostgresRecords
from penstock.cli.main import main

# Only as a program: test collection imports this as well, and would change all targets.
if __name__ == "__main__":
    PostgresRecords.steps_with_records = False
    sys.exit(main(sys.argv[1:]))
