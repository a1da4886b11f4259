-- Missing objects are created by one run at a time. A session notices what the previous run has
-- created when it locks a relation that it had not locked, which IF NOT EXISTS does too late.
DO $$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(
        pg_catalog.hashtextextended('penstock:making', 0)
    );
    PERFORM FROM pg_catalog.pg_namespace LIMIT 0;
END
$$
