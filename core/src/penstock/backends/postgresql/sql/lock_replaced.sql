-- Wait for another run that replaces the same rows, until it ends.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(pg_catalog.concat('penstock: ', {rows}::pg_catalog.text), 0))
