"""Text files being written: their formats, and one file for all partitions."""
