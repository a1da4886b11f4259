"""Text files that are written: their formats, and one file of all partitions."""
