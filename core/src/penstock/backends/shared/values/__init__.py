"""Values and types in record batches."""
