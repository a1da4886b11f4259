"""What the server's catalog says about tables, types and keys."""
