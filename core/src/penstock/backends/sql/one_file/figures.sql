-- What reports need, and the tables of earlier versions lack.
CREATE TABLE IF NOT EXISTS {journal} (
    run_id {text}, execution_id {text}, content {text} NOT NULL,
    PRIMARY KEY (run_id, execution_id));
CREATE TABLE IF NOT EXISTS {watermark} (
    name {text}, epoch {long}, run_id {text} NOT NULL, content {text} NOT NULL,
    made_at {time} NOT NULL DEFAULT ({now}), PRIMARY KEY (name, epoch));
ALTER TABLE {commit_record} ADD COLUMN spent {text}
