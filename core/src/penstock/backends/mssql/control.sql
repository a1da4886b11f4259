IF SCHEMA_ID({text}) IS NULL EXEC ({make});
CREATE TABLE {schema}.run (
    run_id {name}(64) {exact} NOT NULL PRIMARY KEY, generation int NOT NULL DEFAULT 1,
    spec {long} NOT NULL, "plan" {long} NOT NULL, partitions int NOT NULL DEFAULT 0,
    fingerprint {name}(200) NOT NULL, source_state {long} NOT NULL, snapshots {long} NOT NULL,
    status {name}(40) NOT NULL DEFAULT 'created', created_at {name}(40) NOT NULL,
    prepared_at {name}(40), finished_at {name}(40), snapshot_released_at {name}(40),
    failures {long} NOT NULL, loads {name}(300) {exact}, disturbed_by {name}(64), made {name}(80)
);
CREATE TABLE {schema}.loaded_table (
    id {name}(300) {exact} NOT NULL PRIMARY KEY, "rows" bigint NOT NULL
);
CREATE TABLE {schema}.commit_record (
    run_id {name}(64) {exact} NOT NULL, partition_id {name}(64) {exact} NOT NULL,
    attempt int NOT NULL, "rows" bigint NOT NULL, bytes bigint NOT NULL, inserted bigint,
    updated bigint, series {name}(200) {exact}, series_key {name}(210) {exact} NOT NULL,
    read_at {name}(40) NOT NULL DEFAULT '', started_at {name}(40) NOT NULL,
    committed_at {name}(40) NOT NULL,
    PRIMARY KEY (run_id, partition_id), UNIQUE (series_key, partition_id)
);
CREATE TABLE {schema}.step_record (
    run_id {name}(64) {exact} NOT NULL, step_id {name}(200) {exact} NOT NULL,
    done_at {name}(40) NOT NULL DEFAULT '', PRIMARY KEY (run_id, step_id)
);
CREATE TABLE {schema}.recopy_record (
    run_id {name}(64) {exact} NOT NULL, partition_id {name}(64) {exact} NOT NULL,
    request {name}(200) {exact} NOT NULL, made_at {name}(40) NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, partition_id, request)
);
CREATE TABLE {schema}.stage (
    token {name}(40) {exact} NOT NULL PRIMARY KEY, run_id {name}(64) {exact} NOT NULL,
    partition_id {name}(64) {exact} NOT NULL, attempt int NOT NULL, owner int NOT NULL,
    beats bigint NOT NULL
)
