-- From here to its commit one attempt at a time, of whatever run, replaces rows of a table. Its
-- partitions are parts of it.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(
    'penstock:replace:' || coalesce(
        pg_catalog.pg_partition_root({table}::regclass)::oid, {table}::regclass::oid
    ),
    0
))
