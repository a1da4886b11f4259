"""What backends of databases that speak SQL share. It names no database and imports no driver.

dialect.py       how a database writes names, values, bounds and digests
bounds.py        the texts of bounds, as values of their type
conditions.py    a partition's extent as a condition
session.py       what is asked of a database's session
keys.py          bounds of a key: tiles, windows, distinct values, texts that somebody wrote
checksums.py     digests of rows
source.py        a source's catalog, as far as it is SQL
target.py        a target's catalog, as far as it is SQL
relations.py     tables by name and by pattern
unique_keys.py   the key by which mode upsert finds its rows
"""
