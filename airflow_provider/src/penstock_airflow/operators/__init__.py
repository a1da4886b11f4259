"""Operators: the steps of a copy as tasks of their own, or a whole copy in one task."""
