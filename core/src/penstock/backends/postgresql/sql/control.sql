CREATE SCHEMA IF NOT EXISTS {schema};

-- One row for each run: what was asked for, the plan, and how it went.
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
    -- What the table that is loaded is known by, since the run was prepared.
    target_state jsonb,
    finished_at timestamptz,
    -- When it was said that nobody needs the snapshot any more.
    snapshot_released_at timestamptz,
    failures jsonb NOT NULL DEFAULT '[]'
);

-- One row for each partition that is done, written in the transaction of its data.
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id text NOT NULL,
    partition_id text NOT NULL,
    attempt integer NOT NULL,
    rows bigint,
    bytes bigint,
    -- In mode upsert: what was not there before, and what was there and differed.
    inserted bigint,
    updated bigint,
    -- What loaded the rows; their xmin is its lower half.
    transaction bigint,
    -- Of runs that belong together: all of them commit a partition of one id once.
    series text,
    -- When the snapshot was taken that the rows were read with; empty where there was none.
    read_at text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    committed_at timestamptz,
    PRIMARY KEY (run_id, partition_id),
    UNIQUE (series, partition_id)
);

-- One row for each step after the last partition that is done.
CREATE TABLE IF NOT EXISTS {schema}.step_record (
    run_id text NOT NULL,
    step_id text NOT NULL,
    done_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, step_id)
);

-- One row for each partition that was asked to be copied again, and by which request.
CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
    run_id text NOT NULL,
    partition_id text NOT NULL,
    request text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, partition_id, request)
);

-- A crash of the server empties this table together with the unlogged ones that are being loaded.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.volatile_run (
    run_id text PRIMARY KEY
);
