IF SCHEMA_ID({text}) IS NULL EXEC ({make});
CREATE TABLE {schema}.run (
    run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY, generation int NOT NULL DEFAULT 1,
    spec nvarchar(max) NOT NULL, "plan" nvarchar(max) NOT NULL, partitions int NOT NULL DEFAULT 0,
    fingerprint nvarchar(200) NOT NULL, source_state nvarchar(max) NOT NULL, snapshots nvarchar(max) NOT NULL,
    status nvarchar(40) NOT NULL DEFAULT 'created', created_at nvarchar(40) NOT NULL,
    prepared_at nvarchar(40), finished_at nvarchar(40), snapshot_released_at nvarchar(40),
    failures nvarchar(max) NOT NULL, loads nvarchar(300) COLLATE Latin1_General_BIN2, disturbed_by nvarchar(64), made nvarchar(80)
);
CREATE TABLE {schema}.loaded_table (
    id nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY, "rows" bigint NOT NULL
);
CREATE TABLE {schema}.commit_record (
    run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL, partition_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    attempt int NOT NULL, "rows" bigint NOT NULL, bytes bigint NOT NULL, inserted bigint,
    updated bigint, series nvarchar(200) COLLATE Latin1_General_BIN2, series_key nvarchar(210) COLLATE Latin1_General_BIN2 NOT NULL,
    read_at nvarchar(40) NOT NULL DEFAULT '', started_at nvarchar(40) NOT NULL,
    committed_at nvarchar(40) NOT NULL, spent nvarchar(max),
    PRIMARY KEY (run_id, partition_id), UNIQUE (series_key, partition_id)
);
CREATE TABLE {schema}.step_record (
    run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL, step_id nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    done_at nvarchar(40) NOT NULL DEFAULT '', PRIMARY KEY (run_id, step_id)
);
CREATE TABLE {schema}.recopy_record (
    run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL, partition_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    request nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL, made_at nvarchar(40) NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, partition_id, request)
);
CREATE TABLE {schema}.stage (
    token nvarchar(40) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY, run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    partition_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL, attempt int NOT NULL, owner int NOT NULL,
    beats bigint NOT NULL
);
CREATE TABLE {schema}.journal (
    run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL, execution_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    content nvarchar(max) NOT NULL, PRIMARY KEY (run_id, execution_id)
)
