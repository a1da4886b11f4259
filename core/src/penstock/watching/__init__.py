"""What other systems watch: metrics of a run in a file, and its spans."""
