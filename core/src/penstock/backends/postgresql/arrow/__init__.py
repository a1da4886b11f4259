"""Record batches into the server and out of it."""
