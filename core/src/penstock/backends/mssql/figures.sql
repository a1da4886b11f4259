IF OBJECT_ID({journal}) IS NULL CREATE TABLE {schema}.journal (
    run_id {name}(64) {exact} NOT NULL, execution_id {name}(64) {exact} NOT NULL,
    content {long} NOT NULL, PRIMARY KEY (run_id, execution_id)
);
ALTER TABLE {schema}.commit_record ADD spent {long}
