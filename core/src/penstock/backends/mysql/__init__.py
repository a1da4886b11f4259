"""MySQL and MariaDB: rows leave as record batches, and arrive by LOAD DATA in a transaction."""
