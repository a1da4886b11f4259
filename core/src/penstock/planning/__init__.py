"""Planning: how a table is cut, how its columns are mapped, and the plan of a run."""
