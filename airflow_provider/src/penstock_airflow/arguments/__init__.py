"""Arguments of operators and task groups: types, checks, and conversion for the core."""
