"""Tables that are made, stages that are filled, and what a column would change."""
