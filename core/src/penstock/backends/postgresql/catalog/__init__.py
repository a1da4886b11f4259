"""The server's catalog: tables, types and keys."""
