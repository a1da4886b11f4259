"""The snapshot with which a run reads: held, shared, awaited, and replaced if it is lost."""
