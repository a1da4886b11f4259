"""What the server's catalog knows of tables, types and keys."""
