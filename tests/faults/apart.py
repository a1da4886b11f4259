"""The command line with a target whose steps commit by themselves, each before its record."""

from __future__ import annotations

import sys

from penstock.backends.postgresql.records import PostgresRecords
from penstock.cli.main import main

PostgresRecords.steps_with_records = False

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
