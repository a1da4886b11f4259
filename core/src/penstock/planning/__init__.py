"""How a table is cut, which column goes into which, and the plan of a run."""
