"""The protocols that a database implements to be a source or a target."""
