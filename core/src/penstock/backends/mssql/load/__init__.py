"""Table creation, stages, locks, and values that a column would change."""
