"""PostgreSQL as source and target.

backend.py     the object that the entry point names
connection.py  connect, session settings, URLs
errors.py      what the server's errors mean for us
statements.py  the .sql files, and quoting
predicate.py   a partition's extent as a condition
columns.py     a relation's columns; datatypes.py: what the catalog knows of their types
fitting.py     how a column goes into another; losses.py: what it may lose; casting.py: casts
source.py      facts for planning; keys.py: those about a key
snapshot.py    export and hold a snapshot
reader.py      COPY TO STDOUT
target.py      the target's tables; control.py: run and commit records
definition.py  a table's definition, as JSON; ddl.py: as statements
load_plan.py   the steps around a load: recreate.py, swap.py, indexes.py
existing.py    what stands in the target, what depends on it, what one may do there
writer.py      COPY FROM STDIN, in one transaction with the commit record

Record batches, for unlike systems:

arrow_types.py     the type of a column in Arrow, and of one that is made for Arrow's
arrow_out.py       CSV as record batches; arrow_parsing.py: values that Arrow's reader does not know
arrow_in.py        record batches as binary or text COPY; arrow_texts.py: arrays as texts
arrow_families.py  what goes into what; arrow_fitting.py: at what loss
made.py            mode recreate from an unlike source
canonical.py       values as both systems write them, for checksums
"""

from __future__ import annotations

from penstock.backends.postgresql.backend import PostgresBackend

backend = PostgresBackend()
