"""Plugins of Airflow's API server."""
