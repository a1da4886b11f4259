-- What reports need, and the tables of earlier versions lack.
-- One row for each execution of a run: how it went over time, written by that execution alone.
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id text NOT NULL,
    execution_id text NOT NULL,
    content jsonb NOT NULL,
    PRIMARY KEY (run_id, execution_id)
);

-- One row for each night: how far the source was read, and what came of it. Of one name, whoever
-- takes the next epoch has ended every other night that was to take it.
CREATE TABLE IF NOT EXISTS {schema}.watermark (
    name text NOT NULL,
    epoch bigint NOT NULL,
    run_id text NOT NULL,
    content jsonb NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, epoch)
);

-- Where the time of the attempt went that has committed.
ALTER TABLE {schema}.commit_record ADD COLUMN IF NOT EXISTS spent jsonb;

-- For each user who loads, where another one made the tables:
-- GRANT USAGE ON SCHEMA {schema} TO loader;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO loader;
