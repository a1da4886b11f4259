CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.run (
    run_id {texts} PRIMARY KEY, generation {int} NOT NULL DEFAULT 1,
    spec {texts} NOT NULL, plan {texts} NOT NULL, partitions {int} NOT NULL DEFAULT 0,
    fingerprint {texts} NOT NULL, source_state {texts} NOT NULL, snapshots {texts} NOT NULL,
    status {texts} NOT NULL DEFAULT 'created', created_at {texts} NOT NULL,
    prepared_at {texts}, finished_at {texts}, snapshot_released_at {texts},
    failures {texts} NOT NULL, loads {texts}, disturbed_by {texts}, made {texts}
);
CREATE TABLE IF NOT EXISTS {schema}.loaded_table (id {texts} PRIMARY KEY, rows {long} NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id {texts}, partition_id {texts}, attempt {int} NOT NULL, rows {long} NOT NULL,
    bytes {long} NOT NULL, inserted {long}, updated {long}, series {texts}, spent {texts},
    read_at {texts} NOT NULL DEFAULT '', started_at {texts} NOT NULL, committed_at {texts} NOT NULL,
    PRIMARY KEY (run_id, partition_id), UNIQUE (series, partition_id)
);
CREATE TABLE IF NOT EXISTS {schema}.step_record (
    run_id {texts}, step_id {texts}, done_at {texts} NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, step_id)
);
CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
    run_id {texts}, partition_id {texts}, request {texts}, made_at {texts} NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, partition_id, request)
);
CREATE TABLE IF NOT EXISTS {schema}.stage (
    token {texts} PRIMARY KEY, run_id {texts} NOT NULL, partition_id {texts} NOT NULL,
    attempt {int} NOT NULL, owner {int} NOT NULL, beats {long} NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id {texts}, execution_id {texts}, content {texts} NOT NULL,
    PRIMARY KEY (run_id, execution_id)
)
