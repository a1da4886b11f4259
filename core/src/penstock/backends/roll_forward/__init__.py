"""Committing by a record that names what completes the load, if no transaction covers both."""
