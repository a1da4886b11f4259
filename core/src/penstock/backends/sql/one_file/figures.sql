-- What reports need, and the tables of earlier versions lack.
CREATE TABLE IF NOT EXISTS {journal} (
    run_id {text}, execution_id {text}, content {text} NOT NULL,
    PRIMARY KEY (run_id, execution_id));
ALTER TABLE {commit_record} ADD COLUMN spent {text}
