"""Record batches into and out of the server."""
