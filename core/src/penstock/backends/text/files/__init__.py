"""Text files as rows: opened, parsed, typed."""
