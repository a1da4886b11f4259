-- Tables and columns for reports, which earlier versions do not have.
-- One row per execution of a run: its progress over time, written by that execution alone.
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id text NOT NULL,
    execution_id text NOT NULL,
    content jsonb NOT NULL,
    PRIMARY KEY (run_id, execution_id)
);

-- One row per night: how far the source was read, and the result. The first night of a name to take
-- the next epoch keeps all others from taking it.
CREATE TABLE IF NOT EXISTS {schema}.watermark (
    name text NOT NULL,
    epoch bigint NOT NULL,
    run_id text NOT NULL,
    content jsonb NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, epoch)
);

-- Where the committed attempt spent its time.
ALTER TABLE {schema}.commit_record ADD COLUMN IF NOT EXISTS spent jsonb;

-- For each user that loads, if another user created the tables:
-- GRANT USAGE ON SCHEMA {schema} TO loader;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO loader;
