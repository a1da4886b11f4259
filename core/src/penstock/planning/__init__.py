"""Planning: how a table is partitioned, how its columns are mapped, and the plan of a run."""
