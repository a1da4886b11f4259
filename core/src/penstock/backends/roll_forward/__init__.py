"""Committing by a record that names what completes the load, where no transaction holds both."""
