CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id {texts}, execution_id {texts}, content {texts} NOT NULL,
    PRIMARY KEY (run_id, execution_id)
);
ALTER TABLE {schema}.commit_record ADD COLUMN spent {texts}
