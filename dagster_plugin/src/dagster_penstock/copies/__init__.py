"""The copies of a step: of single tables, by asset partitions or whole, and of a batch."""
