-- {schema} is the control schema's full name.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.run (
    run_id VARCHAR PRIMARY KEY, generation INTEGER NOT NULL DEFAULT 1,
    spec VARCHAR NOT NULL, plan VARCHAR NOT NULL, partitions INTEGER NOT NULL DEFAULT 0,
    fingerprint VARCHAR NOT NULL, source_state VARCHAR NOT NULL, snapshots VARCHAR NOT NULL,
    status VARCHAR NOT NULL DEFAULT 'created',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(), prepared_at TIMESTAMPTZ,
    finished_at TIMESTAMPTZ, snapshot_released_at TIMESTAMPTZ,
    failures VARCHAR NOT NULL DEFAULT '[]', loads VARCHAR, disturbed_by VARCHAR);
CREATE TABLE IF NOT EXISTS {schema}.loaded_table (id VARCHAR PRIMARY KEY, rows BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id VARCHAR, partition_id VARCHAR, attempt INTEGER NOT NULL, rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL, inserted BIGINT, updated BIGINT, series VARCHAR,
    read_at VARCHAR NOT NULL DEFAULT '',
    started_at TIMESTAMPTZ NOT NULL, committed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, partition_id), UNIQUE (series, partition_id));
CREATE TABLE IF NOT EXISTS {schema}.step_record (
    run_id VARCHAR, step_id VARCHAR, done_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, step_id));
CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
    run_id VARCHAR, partition_id VARCHAR, request VARCHAR,
    made_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (run_id, partition_id, request));
