"""Links from a task in Airflow's UI."""
