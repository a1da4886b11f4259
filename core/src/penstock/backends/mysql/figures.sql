CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id varchar(64), execution_id varchar(64), content longtext NOT NULL,
    PRIMARY KEY (run_id, execution_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {schema}.commit_record ADD spent longtext
