-- What reports need, and the tables of earlier versions lack.
-- One row for each execution of a run: how it went over time, written by that execution alone.
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id text NOT NULL,
    execution_id text NOT NULL,
    content jsonb NOT NULL,
    PRIMARY KEY (run_id, execution_id)
);

-- Where the time of the attempt went that has committed.
ALTER TABLE {schema}.commit_record ADD COLUMN IF NOT EXISTS spent jsonb;

-- For each user who loads, where another one made the tables:
-- GRANT USAGE ON SCHEMA {schema} TO loader;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO loader;
