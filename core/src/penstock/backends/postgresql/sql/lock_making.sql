-- Missing objects are created by one run at a time.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('penstock:making', 0))
