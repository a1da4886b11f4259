"""What a database must provide to be a source or a target."""
