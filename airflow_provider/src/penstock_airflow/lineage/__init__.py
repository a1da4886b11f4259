"""The tables that a copy reads and writes, as Airflow's assets and as OpenLineage's datasets."""
