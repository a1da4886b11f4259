CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id VARCHAR(64) NOT NULL, execution_id VARCHAR(64) NOT NULL, content VARCHAR
);
ALTER TABLE {schema}.commit_record ADD COLUMN IF NOT EXISTS spent VARCHAR
