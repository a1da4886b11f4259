IF OBJECT_ID({journal}) IS NULL CREATE TABLE {schema}.journal (
    run_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL, execution_id nvarchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    content nvarchar(max) NOT NULL, PRIMARY KEY (run_id, execution_id)
);
ALTER TABLE {schema}.commit_record ADD spent nvarchar(max)
