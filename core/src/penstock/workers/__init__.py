"""Worker processes, and the one stream that each of them runs."""
