"""Where partitions are loaded, and the steps around the load."""
