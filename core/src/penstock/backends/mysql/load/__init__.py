"""Record batches into a table, within an open transaction."""
