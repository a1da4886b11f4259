CREATE DATABASE IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.run (
    run_id varchar(64) PRIMARY KEY, generation int NOT NULL DEFAULT 1,
    spec longtext NOT NULL, plan longtext NOT NULL, partitions int NOT NULL DEFAULT 0,
    fingerprint varchar(200) NOT NULL, source_state longtext NOT NULL, snapshots longtext NOT NULL,
    status varchar(40) NOT NULL DEFAULT 'created', created_at varchar(40) NOT NULL,
    prepared_at varchar(40), finished_at varchar(40), snapshot_released_at varchar(40),
    failures longtext NOT NULL, loads varchar(300), disturbed_by varchar(64), made varchar(40),
    KEY (loads)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.loaded_table (
    id varchar(300) PRIMARY KEY, `rows` bigint NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.replaced_table (
    id varchar(300) PRIMARY KEY, run_id varchar(64) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.commit_record (
    run_id varchar(64), partition_id varchar(64), attempt int NOT NULL,
    `rows` bigint NOT NULL, bytes bigint NOT NULL, inserted bigint, updated bigint,
    series varchar(200), spent longtext, read_at varchar(40) NOT NULL DEFAULT '',
    started_at varchar(40) NOT NULL, committed_at varchar(40) NOT NULL,
    PRIMARY KEY (run_id, partition_id), UNIQUE (series, partition_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.step_record (
    run_id varchar(64), step_id varchar(200), done_at varchar(40) NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, step_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
    run_id varchar(64), partition_id varchar(64), request varchar(200),
    made_at varchar(40) NOT NULL DEFAULT '', PRIMARY KEY (run_id, partition_id, request)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.journal (
    run_id varchar(64), execution_id varchar(64), content longtext NOT NULL,
    PRIMARY KEY (run_id, execution_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {schema}.watermark (
    name varchar(400), epoch bigint, run_id varchar(64) NOT NULL, content longtext NOT NULL,
    made_at varchar(40) NOT NULL DEFAULT '', PRIMARY KEY (name, epoch)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
