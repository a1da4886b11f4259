"""Record batches into a table, within a transaction that is open."""
