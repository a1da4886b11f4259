CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id varchar(64), execution_id varchar(64), content longtext NOT NULL,
    PRIMARY KEY (run_id, execution_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.watermark (
    name varchar(400), epoch bigint, run_id varchar(64) NOT NULL, content longtext NOT NULL,
    made_at varchar(40) NOT NULL DEFAULT '', PRIMARY KEY (name, epoch)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {schema}.commit_record ADD spent longtext
