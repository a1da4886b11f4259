"""The copies of a step: of one table, by asset partitions or whole, and of several together."""
