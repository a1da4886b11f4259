"""What server databases have in common: network sessions and named locks."""
