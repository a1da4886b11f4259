"""The snapshot that a run reads with: held, shared, awaited, replaced when it is lost."""
