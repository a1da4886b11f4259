"""Penstock's run across the tasks of a DAG run: ids, partitions, results, task states."""
