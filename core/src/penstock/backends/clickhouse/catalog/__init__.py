"""The server's catalog: definitions of tables, and the texts of values."""
