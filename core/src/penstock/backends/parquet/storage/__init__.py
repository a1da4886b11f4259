"""Files and small documents, on disk or in a bucket."""
