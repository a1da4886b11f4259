CREATE SCHEMA IF NOT EXISTS {schema};

-- One row per run: the request, the plan, and the outcome.
CREATE TABLE IF NOT EXISTS {schema}.run (
    run_id text PRIMARY KEY,
    generation integer NOT NULL DEFAULT 1,
    spec jsonb NOT NULL,
    plan jsonb NOT NULL,
    partitions integer NOT NULL,
    fingerprint text NOT NULL,
    source_state jsonb NOT NULL,
    snapshots jsonb NOT NULL DEFAULT '[]',
    status text NOT NULL DEFAULT 'created',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    prepared_at timestamptz,
    -- What identifies the loaded table; set when the run is prepared.
    target_state jsonb,
    finished_at timestamptz,
    -- When the snapshot was declared to be no longer needed.
    snapshot_released_at timestamptz,
    failures jsonb NOT NULL DEFAULT '[]'
);

-- One row per partition that is done, written in the transaction of its rows.
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id text NOT NULL,
    partition_id text NOT NULL,
    attempt integer NOT NULL,
    rows bigint,
    bytes bigint,
    -- In mode upsert: rows that were missing, and rows that differed.
    inserted bigint,
    updated bigint,
    -- The transaction that loaded the rows; its lower half is their xmin.
    transaction bigint,
    -- The series of the run: all of its runs together commit each partition id once.
    series text,
    -- When the snapshot of the rows was taken; empty without a snapshot.
    read_at text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    committed_at timestamptz,
    -- Where the committed attempt spent its time.
    spent jsonb,
    PRIMARY KEY (run_id, partition_id),
    UNIQUE (series, partition_id)
);

-- One row per step after the last partition that is done.
CREATE TABLE IF NOT EXISTS {schema}.step_record (
    run_id text NOT NULL,
    step_id text NOT NULL,
    done_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, step_id)
);

-- One row per partition that a request had copied again.
CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
    run_id text NOT NULL,
    partition_id text NOT NULL,
    request text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, partition_id, request)
);

-- A crash of the server empties this table together with the unlogged tables being loaded.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.volatile_run (
    run_id text PRIMARY KEY
);

-- One row per execution of a run: its progress over time, written by that execution alone.
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id text NOT NULL,
    execution_id text NOT NULL,
    content jsonb NOT NULL,
    PRIMARY KEY (run_id, execution_id)
);

-- One row per night: how far the source was read, and the result. The first night of a name to take
-- the next epoch keeps all others from taking it.
CREATE TABLE IF NOT EXISTS {schema}.watermark (
    name text NOT NULL,
    epoch bigint NOT NULL,
    run_id text NOT NULL,
    content jsonb NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, epoch)
);

-- For each user that loads, if another user created the tables:
-- GRANT USAGE ON SCHEMA {schema} TO loader;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO loader;
