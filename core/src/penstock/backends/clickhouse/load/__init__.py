"""Files and stages that become partitions of a table, and the steps around them."""
