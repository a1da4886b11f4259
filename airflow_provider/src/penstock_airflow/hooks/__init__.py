"""Hooks: Airflow connections as the URLs that Penstock opens."""
