CREATE SCHEMA IF NOT EXISTS {schema};

-- One row for each run: what was asked for, the plan, and how it went.
CREATE TABLE IF NOT EXISTS {schema}.run (
    run_id text PRIMARY KEY,
    generation integer NOT NULL DEFAULT 1,
    spec jsonb NOT NULL,
    plan jsonb NOT NULL,
    fingerprint text NOT NULL,
    source_state jsonb NOT NULL,
    snapshots jsonb NOT NULL DEFAULT '[]',
    status text NOT NULL DEFAULT 'created',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    prepared_at timestamptz,
    finished_at timestamptz,
    failures jsonb NOT NULL DEFAULT '[]'
);

-- One row for each partition that is done, written in the transaction of its data.
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id text NOT NULL,
    partition_id text NOT NULL,
    attempt integer NOT NULL,
    rows bigint,
    bytes bigint,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    committed_at timestamptz,
    PRIMARY KEY (run_id, partition_id)
);

-- For each user who loads, where another one made the tables:
-- GRANT USAGE ON SCHEMA {schema} TO loader;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO loader;
