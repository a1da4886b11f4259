-- The number of tables, with those that they consist of, and the number of locks that the server
-- has room for, for all sessions together.
WITH RECURSIVE tree (oid) AS (
    SELECT c.oid
    FROM unnest(%(schemas)s::name[], %(names)s::name[]) AS asked (schema, name)
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = asked.schema
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = asked.name
    UNION
    SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid
)
SELECT
    (SELECT count(*) FROM tree),
    current_setting('max_locks_per_transaction')::int
        * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int)
