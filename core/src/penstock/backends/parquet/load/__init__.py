"""A dataset that is loaded: its plan, its steps, its files."""
