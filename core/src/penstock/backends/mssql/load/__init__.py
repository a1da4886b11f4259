"""Tables that are made, stages that are filled, locks, and values that a column would change."""
