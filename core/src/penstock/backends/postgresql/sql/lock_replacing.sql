-- Until it commits, only one attempt of any run replaces rows of a table. Its child tables are part
-- of it.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(
    pg_catalog.concat('penstock:replace:', coalesce(
        pg_catalog.pg_partition_root({table}::pg_catalog.regclass), {table}::pg_catalog.regclass
    )::pg_catalog.oid),
    0
))
