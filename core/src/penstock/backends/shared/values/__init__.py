"""Values and types on their way, in record batches."""
