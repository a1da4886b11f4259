"""Worker processes, and the stream that each of them runs."""
