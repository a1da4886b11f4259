"""What a database has to offer to be a source or a target."""
