"""The command line with a target whose steps commit by themselves, each before its record."""

from __future__ import annotations

import sys

from penstock.backends.postgresql.records import PostgresRecords
from penstock.cli.main import main

# Only as a program: whoever collects tests imports this too, and would change all of them.
if __name__ == "__main__":
    PostgresRecords.steps_with_records = False
    sys.exit(main(sys.argv[1:]))
