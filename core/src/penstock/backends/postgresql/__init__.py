"""PostgreSQL as source and target.

backend.py     the object that the entry point names
connection.py  connect, session settings, URLs
errors.py      what the server's errors mean for us
statements.py  the .sql files, and quoting
predicate.py   a partition's extent as a condition
columns.py     a table's columns; which of two may be joined by binary COPY
source.py      facts for planning; keys.py: those about a key
snapshot.py    export and hold a snapshot
reader.py      COPY TO STDOUT
target.py      the target's tables; control.py: run and commit records
writer.py      COPY FROM STDIN, in one transaction with the commit record
"""

from __future__ import annotations

from penstock.backends.postgresql.backend import PostgresBackend

backend = PostgresBackend()
