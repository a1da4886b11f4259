CREATE SCHEMA IF NOT EXISTS {schema};
CREATE STAGE IF NOT EXISTS {schema}.files;
CREATE TABLE IF NOT EXISTS {schema}.run (
    run_id VARCHAR(64) NOT NULL, generation NUMBER(9,0) DEFAULT 1, spec VARCHAR, plan VARCHAR,
    partitions NUMBER(9,0) DEFAULT 0, fingerprint VARCHAR, source_state VARCHAR, snapshots VARCHAR,
    status VARCHAR DEFAULT 'created', created_at VARCHAR, prepared_at VARCHAR,
    finished_at VARCHAR, snapshot_released_at VARCHAR, failures VARCHAR, loads VARCHAR,
    disturbed_by VARCHAR, made VARCHAR
);
CREATE TABLE IF NOT EXISTS {schema}.loaded_table (id VARCHAR, "ROWS" NUMBER(18,0));
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id VARCHAR(64) NOT NULL, partition_id VARCHAR(64) NOT NULL, attempt NUMBER(9,0),
    "ROWS" NUMBER(18,0), bytes NUMBER(18,0), inserted NUMBER(18,0), updated NUMBER(18,0),
    series VARCHAR, read_at VARCHAR DEFAULT '', started_at VARCHAR, committed_at VARCHAR, spent VARCHAR
);
CREATE TABLE IF NOT EXISTS {schema}.step_record (
    run_id VARCHAR(64) NOT NULL, step_id VARCHAR NOT NULL, done_at VARCHAR DEFAULT ''
);
CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
    run_id VARCHAR(64) NOT NULL, partition_id VARCHAR(64) NOT NULL, request VARCHAR NOT NULL,
    made_at VARCHAR DEFAULT ''
);
CREATE TABLE IF NOT EXISTS {schema}.stage (
    token VARCHAR NOT NULL, run_id VARCHAR(64) NOT NULL, partition_id VARCHAR(64) NOT NULL,
    attempt NUMBER(9,0), owner NUMBER(1,0), beats NUMBER(18,0), process VARCHAR,
    beat_at TIMESTAMP_NTZ
);
CREATE TABLE IF NOT EXISTS {schema}.lease (
    name VARCHAR NOT NULL, token VARCHAR NOT NULL, process VARCHAR, beat_at TIMESTAMP_NTZ
);
CREATE TABLE IF NOT EXISTS {schema}.guard AS SELECT 0 AS turn;
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id VARCHAR(64) NOT NULL, execution_id VARCHAR(64) NOT NULL, content VARCHAR
)
