"""The server's catalog: tables, keys, partitions, statistics, and the texts of values."""
