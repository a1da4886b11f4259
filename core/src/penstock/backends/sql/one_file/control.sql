-- Names of types in braces are replaced by those of the database. JSON is stored as text.
CREATE TABLE IF NOT EXISTS {run} (
    run_id {text} PRIMARY KEY, generation {int} NOT NULL DEFAULT 1,
    spec {text} NOT NULL, plan {text} NOT NULL, partitions {int} NOT NULL DEFAULT 0,
    fingerprint {text} NOT NULL, source_state {text} NOT NULL, snapshots {text} NOT NULL,
    status {text} NOT NULL DEFAULT 'created',
    created_at {time} NOT NULL DEFAULT ({now}), prepared_at {time},
    finished_at {time}, snapshot_released_at {time},
    failures {text} NOT NULL DEFAULT '[]', loads {text}, disturbed_by {text});
CREATE TABLE IF NOT EXISTS {loaded_table} (id {text} PRIMARY KEY, rows {long} NOT NULL);
CREATE TABLE IF NOT EXISTS {commit_record} (
    run_id {text}, partition_id {text}, attempt {int} NOT NULL, rows {long} NOT NULL,
    bytes {long} NOT NULL, inserted {long}, updated {long}, series {text}, spent {text},
    read_at {text} NOT NULL DEFAULT '',
    started_at {time} NOT NULL, committed_at {time} NOT NULL DEFAULT ({now}),
    PRIMARY KEY (run_id, partition_id), UNIQUE (series, partition_id));
CREATE TABLE IF NOT EXISTS {step_record} (
    run_id {text}, step_id {text}, done_at {time} NOT NULL DEFAULT ({now}),
    PRIMARY KEY (run_id, step_id));
CREATE TABLE IF NOT EXISTS {recopy_record} (
    run_id {text}, partition_id {text}, request {text},
    made_at {time} NOT NULL DEFAULT ({now}), PRIMARY KEY (run_id, partition_id, request));
CREATE TABLE IF NOT EXISTS {journal} (
    run_id {text}, execution_id {text}, content {text} NOT NULL,
    PRIMARY KEY (run_id, execution_id));
CREATE TABLE IF NOT EXISTS {watermark} (
    name {text}, epoch {long}, run_id {text} NOT NULL, content {text} NOT NULL,
    made_at {time} NOT NULL DEFAULT ({now}), PRIMARY KEY (name, epoch))
