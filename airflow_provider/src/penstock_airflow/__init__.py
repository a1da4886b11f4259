"""Penstock in Airflow: one mapped task per partition of a table, each retried alone."""
