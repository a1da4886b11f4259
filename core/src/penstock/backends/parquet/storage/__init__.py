"""Files and small documents on a disk or in a bucket."""
